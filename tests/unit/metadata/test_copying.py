"""The steps of moving a metadata log, with a crash or another process between any two of them."""

from collections.abc import Callable, Iterator

import pytest

from siltstone.metadata.applying import MetadataMoved
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import PutKey
from siltstone.metadata.copying import (
    COPY_ATTEMPTS_MAX,
    CopyDiffers,
    CopyTaken,
    LogInUse,
    NothingToCopy,
    copy_log,
)
from siltstone.metadata.log_entry import LogPosition, link_of
from siltstone.metadata.snapshot import encode_snapshot
from siltstone.metadata.store.memory import MemoryLog
from siltstone.metadata.store.port import AppendUncertain, LogUnavailable
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness

URL = "postgresql://here/store"


class CopyInMemory:
    """``on_write`` is called when the copy was written; ``cannot_complete``: the process dies before the last step."""

    def __init__(self, on_write: Callable[[], object] = lambda: None) -> None:
        self.written: list[tuple[LogPosition, bytes, list[bytes]]] = []
        self.completed: list[LogPosition] = []
        self.cannot_complete = self.is_damaged = False
        self._on_write = on_write

    def is_complete(self) -> bool:
        return bool(self.completed)

    def write(self, position: LogPosition, entry: bytes, chunks: Iterator[bytes]) -> None:
        self.written.append((position, entry, list(chunks)))
        self._on_write()

    def chunks(self) -> Iterator[bytes]:
        chunks = self.written[-1][2]
        return iter(chunks[:-1] if self.is_damaged else chunks)

    def complete(self, position: LogPosition) -> None:
        if self.cannot_complete:
            raise LogUnavailable("the process died here")
        assert position == self.written[-1][0]
        self.completed.append(position)

    def close(self) -> None:
        return None


def client_of(log: MemoryLog) -> MetadataClient:
    return MetadataClient(log, ManualClock(), seeded_randomness(5))


def log_of(*keys: str) -> MemoryLog:
    log = MemoryLog()
    for key in keys:
        client_of(log).execute(PutKey(key, b"value"))
    return log


def copied(log: MemoryLog, new: CopyInMemory, url: str = URL, told: list[str] | None = None):
    steps: list[str] = [] if told is None else told
    return copy_log(log, new, url, ManualClock(), seeded_randomness(7), on_step=steps.append)


def test_the_copy_is_the_image_and_the_newest_entry_and_the_old_log_names_the_new_one() -> None:
    log, new, told = log_of("a", "b", "c"), CopyInMemory(), []
    image = client_of(log).image
    ((_, newest),) = log.read_after(2, 1)
    done = copied(log, new, told=told)
    assert not done.was_done and done.image.position == image.position
    assert new.written == [(image.position, newest, list(encode_snapshot(image)))]
    assert new.completed == [image.position] and link_of(newest).append_id == image.position.append_id
    assert told == ["reading the metadata", f"writing version 3 to {URL}", "ending the old log"]
    with pytest.raises(MetadataMoved, match=URL):
        client_of(log)


def test_a_copy_that_was_completed_is_not_written_again() -> None:
    log, new = log_of("a"), CopyInMemory()
    first = copied(log, new)
    again = copied(log, new)
    assert again.was_done and again.image.position == first.image.position
    assert len(new.written) == len(new.completed) == 1


def test_an_attempt_that_died_before_the_last_step_is_carried_on() -> None:
    log, new = log_of("a", "b"), CopyInMemory()
    new.cannot_complete = True
    with pytest.raises(LogUnavailable):
        copied(log, new)
    with pytest.raises(MetadataMoved):
        client_of(log)
    new.cannot_complete = False
    done = copied(log, new)
    assert not done.was_done and new.completed == [done.image.position]
    assert sorted(done.image.keys) == ["a", "b"] and log.head().version == 3, "the log is ended once"


def test_a_log_that_moved_on_while_it_was_copied_is_copied_again() -> None:
    log, late = log_of("a"), iter(["b"])
    new = CopyInMemory(lambda: [client_of(log).execute(PutKey(key, b"")) for key in late])
    done = copied(log, new)
    assert sorted(done.image.keys) == ["a", "b"]
    assert [position.version for position, *_ in new.written] == [1, 2]
    assert new.completed == [done.image.position]


def test_a_log_that_always_moves_on_is_in_use_and_stays_valid() -> None:
    log = log_of("a")
    new = CopyInMemory(lambda: client_of(log).execute(PutKey(f"{len(new.written)}", b"")))
    with pytest.raises(LogInUse, match=f"has moved on {COPY_ATTEMPTS_MAX} times"):
        copied(log, new)
    assert len(new.written) == COPY_ATTEMPTS_MAX and not new.completed
    assert len(client_of(log).image.keys) == COPY_ATTEMPTS_MAX + 1


@pytest.mark.parametrize("lands", [False, True])
def test_the_end_of_the_old_log_whose_outcome_is_unknown_is_looked_up(lands: bool) -> None:
    class Uncertain(MemoryLog):
        answers = True

        def append(self, entry: bytes, expected: LogPosition) -> LogPosition:
            if self.answers:
                return super().append(entry, expected)
            self.answers = True
            if lands:
                super().append(entry, expected)
            raise AppendUncertain("no answer")

    log, new = Uncertain(), CopyInMemory()
    client_of(log).execute(PutKey("a", b""))
    log.answers = False
    done = copied(log, new)
    assert (len(new.written), new.completed) == (2, [done.image.position])
    assert log.head().version == 2


def test_a_copy_that_reads_back_otherwise_does_not_end_the_old_log() -> None:
    log, new = log_of("a"), CopyInMemory()
    new.is_damaged = True
    with pytest.raises(CopyDiffers, match="repeat the command"):
        copied(log, new)
    assert not new.completed and "a" in client_of(log).image.keys


def test_what_cannot_be_copied_is_refused_before_anything_is_written() -> None:
    empty, taken, elsewhere = CopyInMemory(), CopyInMemory(), CopyInMemory()
    with pytest.raises(NothingToCopy):
        copied(log_of(), empty)
    taken.completed.append(LogPosition())
    with pytest.raises(CopyTaken, match=f"{URL} holds a metadata log already"):
        copied(log_of("a"), taken)
    moved = log_of("a")
    copied(moved, CopyInMemory(), "postgresql://there/store")
    with pytest.raises(CopyTaken, match="was moved to postgresql://there/store already"):
        copied(moved, elsewhere)
    assert not empty.written and not taken.written and not elsewhere.written
