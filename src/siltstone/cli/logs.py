"""The log on stderr: one line per record, the time first, a traceback below its line.

::

    2026-11-21 09:12:07.123 warning  stream_engine.upload.pipeline  upload waits: …

Times are UTC, as in all output of the commands. For programs that collect logs there is JSON instead, one object per
record and the traceback inside it. Then everything else that a command writes on stderr is an object, too.
"""

import json
import logging
import sys
import threading
from datetime import UTC, datetime

import click

LEVELS = ("debug", "info", "warning", "error")
DEFAULT_LEVEL = "warning"

TEXT, JSON = LOG_FORMATS = ("text", "json")
log_format_option = click.option(
    "--log-format",
    type=click.Choice(LOG_FORMATS),
    default=TEXT,
    help=f"What stderr gets: lines for people, or one JSON object per line [{TEXT}].",
)

COMMAND_LOGGER = "siltstone.cli"
"""The logger named in the objects of what a command itself says."""

_COLOURS = {logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m", logging.CRITICAL: "\x1b[31m"}
_PLAIN = "\x1b[0m"
_ONE_LINE = {number: repr(chr(number))[1:-1] for number in (*range(32), *range(127, 160), 0x2028, 0x2029)}
"""Control characters are written as escapes: a message may have the name of a client, which may hold any character."""
_LEVEL_WIDTH = max(map(len, LEVELS))


class LogFormatter(logging.Formatter):
    """``in_colour``: colours the level, nothing else. ``node_id``: of the node whose log shares stderr with others'."""

    def __init__(self, *, in_colour: bool, node_id: str | None = None) -> None:
        super().__init__()
        self._in_colour = in_colour
        self._node = "" if node_id is None else f"  node {node_id}"

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        level = f"{record.levelname.lower():{_LEVEL_WIDTH}}"
        if self._in_colour and (colour := _COLOURS.get(record.levelno)):
            level = f"{colour}{level}{_PLAIN}"
        name = record.name.removeprefix("siltstone.")
        message = record.getMessage().translate(_ONE_LINE)
        line = f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03} {level}{self._node}  {name}  {message}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


class JsonLogFormatter(logging.Formatter):
    """Makes an object with ts, level, logger and message of a record, traceback if it has one, and node for nodes that
    share stderr. Its text is ASCII, so that no name of a client can break a line or an encoding."""

    def __init__(self, node_id: str | None = None) -> None:
        super().__init__()
        self._node = {} if node_id is None else {"node": int(node_id)}

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        written = {
            "ts": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            **self._node,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            written["traceback"] = self.formatException(record.exc_info)
        return json.dumps(written)


def logs_json() -> bool:
    """Returns whether stderr is to get nothing but JSON."""
    return any(isinstance(handler.formatter, JsonLogFormatter) for handler in logging.getLogger().handlers)


def json_line(level: int, message: str) -> str:
    """Returns a message of a command itself as an object like those of the log."""
    record = logging.LogRecord(COMMAND_LOGGER, level, __file__, 0, message, None, None)
    return JsonLogFormatter().format(record)


def log_to_stderr(level: str, log_format: str = TEXT, node_id: str | None = None) -> None:
    """Logs our records of ``level`` and above, and records of libraries from warning on. ``node_id``: in each record,
    where several nodes log to one stderr."""
    handler = logging.StreamHandler(sys.stderr)
    if log_format == JSON:
        handler.setFormatter(JsonLogFormatter(node_id))
        threading.excepthook = _log_failed_thread
    else:
        handler.setFormatter(LogFormatter(in_colour=sys.stderr.isatty(), node_id=node_id))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("siltstone").setLevel(level.upper())


def _log_failed_thread(failed: threading.ExceptHookArgs) -> None:
    """Python itself would print a traceback of many lines."""
    if failed.exc_value is not None:
        name = failed.thread.name if failed.thread is not None else "?"
        logging.getLogger("siltstone").error("thread %s failed", name, exc_info=failed.exc_value)


def level_for(level: str | None, verbose: int) -> str:
    """``-v`` means info, ``-vv`` means debug; --log-level wins over both."""
    if level is not None:
        return level
    return (DEFAULT_LEVEL, "info", "debug")[min(verbose, 2)]
