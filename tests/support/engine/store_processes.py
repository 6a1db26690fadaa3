"""The work of other processes on a store, for tests: module-level functions, which a spawned process can import."""

import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from siltstone.object_store.opening import open_store
from siltstone.object_store.port import MultipartUpload, ObjectAlreadyExists, UploadedPart


def send_part(
    url: str, upload: MultipartUpload, part_number: int, position: int, content: bytes
) -> UploadedPart:
    store = open_store(url)
    try:
        return store.upload_part(upload, part_number, position, [content])
    finally:
        store.close()


def claim(url: str, key: str, content: bytes) -> bool:
    """Returns whether this process won."""
    store = open_store(url)
    try:
        store.put_if_absent(key, [content])
    except ObjectAlreadyExists:
        return False
    finally:
        store.close()
    return True


def content_of(number: int) -> bytes:
    """Returns content whose size and pattern depend on the number, so that a mix or a piece is recognised."""
    return number.to_bytes(8, "big") * (1 + number % 997 * 64)


def write_forever(url: str) -> None:
    """Puts, conditional puts and uploads of two parts until killed; says each key once it is acknowledged."""
    store = open_store(url)
    for number in itertools.count():
        content, key = content_of(number), f"{number % 7:02x}/objects/{number:020d}"
        if number % 3 == 0:
            store.put(key, [content[:100], content[100:]])
        elif number % 3 == 1:
            store.put_if_absent(key, [content])
        else:
            upload, half = store.start_multipart(key), len(content) // 2
            parts = [
                store.upload_part(upload, 2, half, [content[half:]]),
                store.upload_part(upload, 1, 0, [content[:half]]),
            ]
            store.complete_multipart(upload, parts[::-1])
        print(key, flush=True)


STEPS = ("pwritev", "fdatasync", "rename", "link", "mkdir", "fsync", "unlink")
"""The system calls of a folder store that change something."""


def stop_at_every_step(folder: str) -> None:
    """Runs the same writes again and again, each time in a process that is killed one step later, until one comes
    to its end. Each leaves its bucket in ``folder/<step>``; the last step is printed."""
    for step in itertools.count(1):
        process = os.fork()
        if not process:
            die_at_step(step)
            write_once((Path(folder) / f"{step}").as_uri())
            os._exit(0)
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if status == 0:
            print(step)
            return
        assert status == -signal.SIGKILL, f"step {step} failed by itself"


def write_once(url: str) -> None:
    """A put, a conditional put, and an upload in two parts, one of them a copy."""
    store = open_store(url, create=True)
    keys = [f"a5/objects/{number:020d}" for number in range(1, 4)]
    store.put(keys[0], [content_of(1)[:9], content_of(1)[9:]])
    store.put_if_absent(keys[1], [content_of(2)])
    upload, content = store.start_multipart(keys[2]), content_of(3)
    store.put(f"b6/objects/{3:020d}", [content])
    parts = [
        store.upload_part(upload, 1, 0, [content[:50]]),
        store.copy_part(upload, 2, 50, f"b6/objects/{3:020d}", 50, len(content)),
    ]
    store.complete_multipart(upload, parts)


def die_at_step(step: int) -> None:
    """Before the step of that number; in its middle when it writes."""
    steps = itertools.count(1)

    def deadly(name: str, call: Callable[..., object]) -> Callable[..., object]:
        def step_or_die(*arguments: Any, **options: Any) -> object:
            if next(steps) != step:
                return call(*arguments, **options)
            if name == "pwritev":
                descriptor, buffers, position = arguments
                os.pwrite(descriptor, b"".join(buffers)[:-1], position)
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError("alive")

        return step_or_die

    for name in STEPS:
        setattr(os, name, deadly(name, getattr(os, name)))


if __name__ == "__main__":
    {"write_forever": write_forever, "stop_at_every_step": stop_at_every_step}[sys.argv[1]](sys.argv[2])
