"""Tasks for tests of the Spark runner. Executors import them from here, so they are module-level functions."""

import os
import signal
import time
from pathlib import Path


def double(unit: bytes) -> bytes:
    return unit * 2


def process_id(unit: bytes) -> bytes:
    return str(os.getpid()).encode()


def attempts_so_far(folder: Path) -> int:
    return len(list(folder.glob("attempt-*")))


def _note_attempt(folder: Path) -> int:
    """Counts attempts across processes: each makes the first file that is not there."""
    number = 1
    while True:
        try:
            (folder / f"attempt-{number}").open("x").close()
        except FileExistsError:
            number += 1
        else:
            return number


def fail_twice(folder: bytes) -> bytes:
    number = _note_attempt(Path(os.fsdecode(folder)))
    if number <= 2:
        raise ValueError(f"attempt {number} of a test")
    return b"done"


def die_once(folder: bytes) -> bytes:
    if _note_attempt(Path(os.fsdecode(folder))) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return b"done"


def fail_always(folder: bytes) -> bytes:
    _note_attempt(Path(os.fsdecode(folder)))
    raise ValueError("the block at 4096\nis damaged")


def die_always(folder: bytes) -> bytes:
    _note_attempt(Path(os.fsdecode(folder)))
    os.kill(os.getpid(), signal.SIGKILL)
    return b"never"


def wait_for_gate(folder: bytes) -> bytes:
    """Notes its process (``running-PID``), then waits until the test opens the gate; gives up after a minute."""
    where = Path(os.fsdecode(folder))
    (where / f"running-{os.getpid()}").touch()
    for _ in range(6000):
        if (where / "gate").exists():
            (where / "passed").touch()
            return b"passed"
        time.sleep(0.01)
    raise TimeoutError("nobody opened the gate")


def write_file(path: bytes) -> bytes:
    """The bytes follow from the file's name; written beside it and renamed, as a store does."""
    name = path.rsplit(b"/", 1)[-1]
    content = name * 100_000
    draft = Path(os.fsdecode(path) + f".{os.getpid()}")
    draft.write_bytes(content)
    draft.rename(os.fsdecode(path))
    return name + b" " + str(len(content)).encode()
