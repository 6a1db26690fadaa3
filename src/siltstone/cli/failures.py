"""Turns an exception into an exit status and one line on stderr; no traceback, unless SILTSTONE_DEBUG=1.

===========  ====================================================================================
exit status  meaning
===========  ====================================================================================
0            success
1            the command failed, or found something wrong with the data
2            the request was wrong and nothing was done: correct the command line or the settings
3            stopped by a signal before everything was committed: the next start of the broker commits the rest
130          interrupted (Ctrl-C)
===========  ====================================================================================
"""

import os
import re

import click

from siltstone.metadata.refusals import Refusal
from siltstone.metadata.store.port import NotMetadataLog
from siltstone.model.errors import InvalidRequest, SiltstoneError

FAILED = 1
WRONG_REQUEST = 2
STOPPED_EARLY = 3
NOT_ALL_CHECKED = 3
INTERRUPTED = 130

LINE_CHARACTERS_MAX = 2_000
LINE_END_CHARACTERS = 500
"""A line that repeats what was typed may be long. Its end is kept, because it says what to do."""

_NO_INTEGER = re.compile(r"is not a valid integer(?: range)?")
_SEVERAL_NAMES = re.compile(r"\(Did you mean one of: ([^)]*)\?\)")

DEBUG_VARIABLE = "SILTSTONE_DEBUG"


class ExtraMissing(InvalidRequest):
    """The command needs an optional package that is not installed."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(f"{module} is not installed: pip install 'siltstone[{extra}]'")


class Failure(Exception):
    """Ends a command with ``status`` after it has printed what is wrong itself."""

    def __init__(self, status: int = FAILED) -> None:
        super().__init__(f"exit status {status}")
        self.status = status


def debugging() -> bool:
    return os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")


def exit_status(failure: BaseException) -> int:
    if isinstance(failure, Failure):
        return failure.status
    if isinstance(failure, KeyboardInterrupt | click.Abort):
        return INTERRUPTED
    # A Refusal of the metadata store is an InvalidRequest of our code, not of the person who typed the command.
    if isinstance(failure, Refusal):
        return FAILED
    if isinstance(failure, InvalidRequest | NotMetadataLog | click.UsageError | click.BadParameter):
        return WRONG_REQUEST
    return FAILED


def failure_line(failure: BaseException) -> str | None:
    """Returns the line for stderr; None if the command has printed the reason already."""
    match failure:
        case Failure():
            line = None
        case KeyboardInterrupt() | click.Abort():
            line = "interrupted"
        case click.UsageError(ctx=context):
            command = context.command_path if context else "siltstone"
            line = f"{_sentence(failure.format_message())} See {command} --help"
        case click.ClickException():
            line = failure.format_message()
        case SiltstoneError():
            line = str(failure)
        case FileNotFoundError(filename=None):
            line = "the current folder does not exist any more: change to another one"
        case OSError(strerror=str(reason)):
            line = f"{failure.filename or 'operating system'}: {reason}"
        case _:
            line = (
                f"this is a bug, {type(failure).__name__}: {failure} "
                f"(set {DEBUG_VARIABLE}=1 to see the traceback, and please report it)"
            )
    return _one_line(line) if line else None


def _sentence(text: str) -> str:
    """Puts messages of click into words for people, and adds the full stop that some of them lack."""
    text = _NO_INTEGER.sub("is not a whole number", text)
    text = _SEVERAL_NAMES.sub(r"Did you mean one of \1?", text)
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    if len(line) > LINE_CHARACTERS_MAX:
        line = f"{line[: LINE_CHARACTERS_MAX - LINE_END_CHARACTERS]} … {line[-LINE_END_CHARACTERS:]}"
    if line.isprintable():
        return line
    from siltstone.cli.words import shown  # noqa: PLC0415  loads rich, which few failures need

    return shown(line)
