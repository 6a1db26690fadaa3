"""The metadata as they were: every version that a log holds, and the version at a time, whatever was dropped."""

import msgspec
import pytest

from siltstone.metadata.history import (
    TimeNotHeld,
    VersionNotHeld,
    entries_after,
    image_at,
    known_time_ms,
    newest_time_ms,
    oldest_entry,
    oldest_version,
    refuse_before_times,
    time_text,
    version_at,
)
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.log_entry import LogEntry, encode_entry
from siltstone.metadata.snapshot import encode_snapshot
from siltstone.metadata.store.memory import MemoryLog
from siltstone.metadata.store.port import LogTruncated, LogUnavailable
from support.metadata.metadata_world import MetadataWorld
from support.metadata.queried_store import queried_world


def logged(world: MetadataWorld, entries_kept: int = 1_000) -> MemoryLog:
    log = MemoryLog(entries_kept)
    for number, records in enumerate(world.log):
        log.append(encode_entry(LogEntry(f"{number + 1:032x}", records, log.head().append_id)), log.head())
    return log


def save_snapshot(log: MemoryLog, version: int) -> None:
    image = image_at(log, version)
    log.save_snapshot(image.position, encode_snapshot(image))


def same(image: MetadataImage, other: MetadataImage) -> bool:
    """Whether the images are equal; those of the world have no append id."""
    return [*encode_snapshot(msgspec.structs.replace(image, append_id=other.append_id))] == [
        *encode_snapshot(other)
    ]


def test_every_version_is_there_while_the_first_entry_is() -> None:
    world = queried_world()
    log = logged(world)
    for version, image in enumerate(world.images):
        assert same(image_at(log, version), image), version
    assert image_at(log).version == len(world.log) and image_at(log).position == log.head()
    assert (oldest_version(log), oldest_entry(log)) == (0, 1)


@pytest.mark.parametrize("snapshot", [1, 5, 9])
@pytest.mark.parametrize("entries_kept", [1, 3])
def test_versions_are_held_from_the_snapshot_on(snapshot: int, entries_kept: int) -> None:
    world = queried_world()
    log = logged(world, entries_kept)
    save_snapshot(log, snapshot)
    oldest = snapshot if snapshot > entries_kept else 0
    assert oldest_version(log) == oldest
    assert oldest_entry(log) == max(snapshot - entries_kept, 0) + 1
    for version, image in enumerate(world.images):
        if version >= oldest:
            assert same(image_at(log, version), image), version
            continue
        with pytest.raises(
            VersionNotHeld, match=f"the oldest possible is {oldest}, the newest {len(world.log)}"
        ) as found:
            image_at(log, version)
        assert (found.value.version, found.value.oldest) == (version, oldest)


def test_a_version_that_is_not_yet_is_refused() -> None:
    log = logged(queried_world())
    with pytest.raises(VersionNotHeld):
        image_at(log, log.head().version + 1)
    with pytest.raises(VersionNotHeld):
        image_at(log, -1)
    assert image_at(MemoryLog()) == MetadataImage() and oldest_version(MemoryLog()) == 0


def test_the_version_at_a_time_is_the_last_whose_known_time_is_not_after_it() -> None:
    world = queried_world()
    log = logged(world)
    times = [max((known_time_ms(each) for each in records), default=0) for records in world.log]
    known = [time_ms for time_ms in times if time_ms]
    for time_ms in {each + delta for each in known for delta in (-1, 0, 1)}:
        later = [number for number, each in enumerate(times) if each > time_ms]
        assert version_at(log, time_ms) == (later[0] if later else len(times))
    assert newest_time_ms(world.image) == max(times)


def test_a_time_before_the_first_known_one_can_be_refused() -> None:
    world = queried_world()
    log = logged(world)
    times = [max((known_time_ms(each) for each in records), default=0) for records in world.log]
    number, first_ms = next((number, each) for number, each in enumerate(times, 1) if each)
    refuse_before_times(log, version_at(log, first_ms), first_ms)
    with pytest.raises(TimeNotHeld) as found:
        refuse_before_times(log, version_at(log, first_ms - 1), first_ms - 1)
    assert (found.value.oldest, found.value.oldest_ms) == (number, first_ms)
    refuse_before_times(MemoryLog(), 0, 1)


def test_a_time_before_the_snapshot_is_refused_and_the_oldest_is_named() -> None:
    world = queried_world()
    log = logged(world, entries_kept=1)
    save_snapshot(log, len(world.log))
    newest = newest_time_ms(world.image)
    assert version_at(log, newest) == len(world.log)
    with pytest.raises(TimeNotHeld) as found:
        version_at(log, newest - 1)
    assert time_text(newest) in str(found.value) and found.value.oldest == len(world.log)


def test_a_time_is_written_in_utc() -> None:
    assert time_text(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"


def test_entries_come_in_order_however_many_a_read_returns() -> None:
    world = queried_world()
    log = logged(world)
    found = list(entries_after(log, 2, 10, limit=3))
    assert [version for version, _ in found] == [3, 4, 5, 6, 7, 8, 9, 10]
    assert [entry.records for _, entry in found] == world.log[2:10]


class Truncating(MemoryLog):
    """While it is read, another process saves a snapshot and drops the entries before it, so often."""

    times = 0

    def load_snapshot(self):
        found = super().load_snapshot()
        if self.times:
            self.times -= 1
            image = self.made[self.times]
            MemoryLog.save_snapshot(self, image.position, encode_snapshot(image))
        return found


@pytest.mark.parametrize("times", [1, 3])
def test_a_snapshot_that_is_replaced_meanwhile_is_read_again(times: int) -> None:
    world = queried_world()
    plain = logged(world)
    log = Truncating(entries_kept=1)
    log.times, log.made = times, [image_at(plain, len(world.log) - number) for number in range(times)]
    for version, entry in plain.read_after(0, 1_000):
        log.append(entry, image_at(plain, version - 1).position)
    assert same(image_at(log), world.image)
    assert oldest_version(log) > 0


def test_a_log_that_never_rests_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    log = logged(queried_world())
    calls = []

    def truncated(version: int, *_: object) -> list[tuple[int, bytes]]:
        calls.append(version)
        raise LogTruncated("dropped")

    monkeypatch.setattr(log, "read_after", truncated)
    monkeypatch.setattr("siltstone.metadata.history._has_entry", lambda *_: True)
    for read in (image_at, lambda each: version_at(each, 10**12)):
        calls.clear()
        with pytest.raises(LogUnavailable, match="8 times"):
            read(log)
        assert calls == [0] * 8
