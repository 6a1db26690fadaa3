"""Runs commands at pseudo-terminals and in pipes, each in a process that was forked from one that has loaded them all.

``python forked_commands.py`` reads a ``Run`` as JSON from each line of its stdin and writes an ``Outcome`` as a line to
its stdout. Forking takes some milliseconds where a new Python takes a second; the program has one thread, so a fork is
safe. Ctrl-C at a pseudo-terminal is the byte that the key sends.
"""

import atexit
import fcntl
import gc
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import click

CTRL_C = b"\x03"
CTRL_D = b"\x04"
ROWS = 40


def main() -> None:
    load_everything()
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line))), flush=True)


def load_everything() -> None:
    from siltstone.cli.main import COMMANDS, cli

    for name in COMMANDS:
        cli.get_command(click.Context(cli), name)


def run(wanted: dict[str, Any]) -> dict[str, Any]:
    ours, theirs = _terminal(wanted["columns"]) if wanted["columns"] else _pipes()
    process = os.fork()
    if not process:
        _become(wanted, theirs)
    for descriptor in set(theirs):
        os.close(descriptor)
    try:
        return _watched(wanted, process, ours)
    finally:
        for descriptor in set(ours):
            os.close(descriptor)


def _terminal(columns: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    return (ours, ours, ours), (theirs, theirs, theirs)


def _pipes() -> tuple[tuple[int, ...], tuple[int, ...]]:
    (in_, to_in), (from_out, out), (from_err, err) = os.pipe(), os.pipe(), os.pipe()
    return (to_in, from_out, from_err), (in_, out, err)


# -- in the forked process


def _become(wanted: dict[str, Any], streams: tuple[int, ...]) -> NoReturn:
    os.setsid()
    if wanted["columns"]:
        fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    os.closerange(
        3, os.sysconf("SC_OPEN_MAX")
    )  # our end of a pipe among them, or its reader never meets the end
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "SILTSTONE_STORE", "SILTSTONE_DEBUG"):
        os.environ.pop(name, None)
    os.environ |= {"TERM": "xterm-256color", **wanted["environment"]}
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", buffering=1 if os.isatty(1) else -1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    sys.argv = ["siltstone", *wanted["words"]]
    if wanted["ctrl_c"] == "":
        _interrupt_at_the_beginning()
    from siltstone.cli.program import main as program

    status: object = 0
    try:
        program()
    except SystemExit as ended:
        status = ended.code
    except BaseException:
        status = 1
        traceback.print_exc()
    finally:  # as the interpreter ends, but for taking all modules apart, which takes longer than most commands
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(status if isinstance(status, int) else 0 if status is None else 1)


def _interrupt_at_the_beginning() -> None:
    """Ctrl-C arrives when the command has read its options and begins."""
    invoke = click.Command.invoke

    def interrupted(self: click.Command, context: click.Context) -> Any:
        if not isinstance(self, click.Group) or not context.invoked_subcommand:
            signal.raise_signal(signal.SIGINT)
        return invoke(self, context)

    click.Command.invoke = interrupted  # type: ignore[method-assign]


# -- in the process that forks


def _watched(wanted: dict[str, Any], process: int, ours: tuple[int, ...]) -> dict[str, Any]:
    """Types what is to be typed, reads until the process ends, and kills it at the deadline."""
    to_in, *readable = dict.fromkeys(ours) if not wanted["columns"] else (ours[0], ours[0])
    received: dict[int, bytearray] = {descriptor: bytearray() for descriptor in readable}
    if wanted["typed"]:
        os.write(to_in, wanted["typed"].encode() + (CTRL_D if wanted["columns"] else b""))
    if not wanted["columns"]:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, to_in)
        os.close(nothing)
    is_interrupted = not wanted["ctrl_c"]
    deadline = time.monotonic() + wanted["seconds_max"]
    is_late = False
    while readable:
        ready, _, _ = select.select(readable, [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            is_late = True
            os.killpg(process, signal.SIGKILL)
            break
        for descriptor in ready:
            try:
                piece = os.read(descriptor, 65536)
            except OSError:  # Linux says so that nobody has the terminal open any more
                piece = b""
            if not piece:
                readable.remove(descriptor)
            received[descriptor] += piece
        if not is_interrupted and any(
            re.search(wanted["ctrl_c"].encode(), bytes(data)) for data in received.values()
        ):
            is_interrupted = True
            if wanted["columns"]:
                os.write(to_in, CTRL_C)
            else:
                os.kill(process, signal.SIGINT)
    _, status = os.waitpid(process, 0)
    out, *err = (bytes(data).decode(errors="replace") for data in received.values())
    return {
        "status": os.waitstatus_to_exitcode(status), "out": out, "err": "".join(err), "is_late": is_late,
        "is_interrupted": is_interrupted,
    }  # fmt: skip


if __name__ == "__main__":
    if os.environ.get("PYTHONPATH") is None:
        sys.path.insert(0, str(Path(__file__).parents[3] / "src"))
    main()
