"""``siltstone`` with a disk that a test can make hang:

    python -m support.faults.hanging_serve FOLDER FILE serve …

While FILE exists, calls that look at, open, reserve, write or sync FOLDER or a file below it do not return. A thread
in such a call cannot be interrupted, as on a disk or a network file system that does not answer. With UPLOAD_HANGS_MS
in the environment an upload without an answer is an outage after that time, not after a minute.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

LOOK_AGAIN_SECONDS = 0.02
BY_PATH = ("open", "mkdir", "unlink", "link", "rename", "stat")
BY_DESCRIPTOR = ("pwritev", "fdatasync", "fsync", "posix_fallocate", "pread")


def make_hang(folder: Path, file: Path) -> None:
    below = f"{folder}/"

    def wait(path: str) -> None:
        while f"{path}/".startswith(below) and still_exists(file):
            time.sleep(LOOK_AGAIN_SECONDS)

    still_exists = _exists_by(os.stat)
    for name in BY_PATH:
        setattr(os, name, _after(lambda path: wait(os.fspath(path)), getattr(os, name)))
    for name in BY_DESCRIPTOR:
        setattr(os, name, _after(lambda number: wait(_path_of(number)), getattr(os, name)))


def _after(wait: Callable[[Any], None], call: Callable[..., Any]) -> Callable[..., Any]:
    def hanging(target: Any, *arguments: Any, **options: Any) -> Any:
        wait(target)
        return call(target, *arguments, **options)

    return hanging


def _exists_by(stat: Callable[[Path], object]) -> Callable[[Path], bool]:
    def exists(file: Path) -> bool:
        try:
            stat(file)
        except FileNotFoundError:
            return False
        return True

    return exists


def _path_of(descriptor: int) -> str:
    return os.readlink(f"/proc/self/fd/{descriptor}")


if __name__ == "__main__":
    make_hang(Path(sys.argv.pop(1)), Path(sys.argv.pop(1)))
    if "UPLOAD_HANGS_MS" in os.environ:
        from siltstone.stream_engine.upload import outage

        outage.HANGING_MS = int(os.environ["UPLOAD_HANGS_MS"])
    from siltstone.cli.program import main

    main()
