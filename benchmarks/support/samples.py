"""py-spy's raw samples, and whose each one is: a package on the event loop, or a thread beside it. Pure.

A line is ``thread (1): wal_0;frame (file.py:12);…;frame (file.py:34) 61``: a stack, outermost first, and how often it
was met. Threads that wait are left out, so samples over rate × time is the share of a core.
"""

import re
from collections import Counter
from collections.abc import Iterable

import msgspec

LOOP_THREADS = ("MainThread", "siltstone-broker")
OF_THE_LOOP = "event loop: socket reads and callbacks"
"""Samples of the loop's thread without a frame of ours: libuv, which calls the kernel."""
RUNNERS_OF_THE_LOOP = (
    "siltstone/server/python_process.py",
    "siltstone/cli/serve/command.py",
    "siltstone/cli/serve/one_node.py",
    "siltstone/cli/main.py",
)
"""The frames that are below every frame of the loop's thread in ``siltstone serve``."""
SOCKETS = "network: socket writes"
PACKAGES = {
    "siltstone/server/network/": "network",
    "siltstone/server/": "server",
    "siltstone/kafka_protocol/": "protocol",
    "siltstone/broker/groups/": "broker: groups",
    "siltstone/broker/": "broker",
    "siltstone/stream_engine/wal/": "engine: write-ahead log",
    "siltstone/stream_engine/": "engine",
    "siltstone/object_formats/": "object formats",
    "siltstone/object_store/": "object store",
    "siltstone/metadata/": "metadata",
    "siltstone/runtime/": "runtime: calls handed to threads, tasks",
    "siltstone/foundation/": "foundation: checksums and encodings",
    "siltstone/": "the rest of siltstone",
}
"""The first prefix that fits counts."""
WRITES = re.compile(r"(\b|_)(sendmsg|send|write|writelines)$")
WAITS_FOR_WORK = ("_worker", "concurrent/futures/thread.py")
"""A thread of a pool that waits at its queue: py-spy often takes it for running."""

_FRAME = re.compile(r"(?P<function>.*) \((?P<file>[^()]*?)(?::\d+)?\)")


class Frame(msgspec.Struct, frozen=True):
    function: str
    file: str

    def __str__(self) -> str:
        return f"{self.function} ({self.file})"


class Sample(msgspec.Struct, frozen=True):
    """``frames``: from the outermost to the one that ran."""

    thread: str
    frames: tuple[Frame, ...]
    count: int

    @property
    def is_of_the_loop(self) -> bool:
        return self.thread in LOOP_THREADS


def parse_samples(text: str) -> list[Sample]:
    """Returns the samples without those of threads that wait for work."""
    parsed = [_parsed(line) for line in text.splitlines() if line]
    return [each for each in parsed if each.frames and not _waits(each.frames[-1])]


def _waits(frame: Frame) -> bool:
    return frame.function == WAITS_FOR_WORK[0] and frame.file.endswith(WAITS_FOR_WORK[1])


def _parsed(line: str) -> Sample:
    stack, _, count = line.rpartition(" ")
    thread, *frames = stack.split(";")
    return Sample(
        re.sub(r"^thread \(\w+\): ", "", thread),
        tuple(
            Frame(found["function"], found["file"]) for each in frames if (found := _FRAME.fullmatch(each))
        ),
        int(count),
    )


def place_of(sample: Sample) -> str:
    """Returns the place to which the time of a sample counts: the standard library's work for a package is that
    package's."""
    if not sample.is_of_the_loop:
        return f"thread: {re.sub(r'_[0-9]+$', '', sample.thread)}"
    ours = next((frame for frame in reversed(sample.frames) if _package(frame) is not None), None)
    if ours is None or ours.file.endswith(RUNNERS_OF_THE_LOOP):
        return OF_THE_LOOP
    if _package(ours) == "network" and WRITES.search(sample.frames[-1].function):
        return SOCKETS
    return str(_package(ours))


def _package(frame: Frame) -> str | None:
    return next((name for folder, name in PACKAGES.items() if folder in frame.file), None)


def places(samples: Iterable[Sample]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for sample in samples:
        counted[place_of(sample)] += sample.count
    return counted


def functions(samples: Iterable[Sample]) -> Counter[str]:
    """Counts the samples of all threads by the frame that ran."""
    counted: Counter[str] = Counter()
    for sample in samples:
        counted[str(sample.frames[-1])] += sample.count
    return counted
