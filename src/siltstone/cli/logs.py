"""The log on stderr: one line per record, the time first, a traceback below its line.

::

    2026-11-21 09:12:07.123 warning  stream_engine.upload.pipeline  upload waits: …

Times are UTC, as in all output of the commands.
"""

import logging
import sys
from datetime import UTC, datetime

LEVELS = ("debug", "info", "warning", "error")
DEFAULT_LEVEL = "warning"

_COLOURS = {logging.WARNING: "\x1b[33m", logging.ERROR: "\x1b[31m", logging.CRITICAL: "\x1b[31m"}
_PLAIN = "\x1b[0m"
_LEVEL_WIDTH = max(map(len, LEVELS))


class LogFormatter(logging.Formatter):
    """``in_colour``: colours the level, nothing else."""

    def __init__(self, *, in_colour: bool) -> None:
        super().__init__()
        self._in_colour = in_colour

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        level = f"{record.levelname.lower():{_LEVEL_WIDTH}}"
        if self._in_colour and (colour := _COLOURS.get(record.levelno)):
            level = f"{colour}{level}{_PLAIN}"
        name = record.name.removeprefix("siltstone.")
        line = f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03} {level}  {name}  {record.getMessage()}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def log_to_stderr(level: str) -> None:
    """Logs our records of ``level`` and above, and records of libraries from warning on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogFormatter(in_colour=sys.stderr.isatty()))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("siltstone").setLevel(level.upper())


def level_for(level: str | None, verbose: int) -> str:
    """``-v`` means info, ``-vv`` means debug; --log-level wins over both."""
    if level is not None:
        return level
    return (DEFAULT_LEVEL, "info", "debug")[min(verbose, 2)]
