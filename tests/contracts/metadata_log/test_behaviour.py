"""What every metadata log does (``store.port``)."""

import threading

import pytest

from siltstone.metadata.log_entry import LogPosition, link_of
from siltstone.metadata.store.port import LogEndsTooEarly, LogTruncated, VersionMovedOn
from support.metadata.log_entries import append_values, entry_after, entry_before_the_chain


def fill(log, count: int) -> list[LogPosition]:
    """Returns the positions after the entries, at the index of their version counted from the head before."""
    positions = [log.head()]
    positions += [append_values(log, b"entry") for _ in range(count)]
    return positions


def versions(log, after: int, limit: int = 100) -> list[int]:
    return [version for version, _ in log.read_after(after, limit)]


def test_a_new_log_is_empty(log) -> None:
    assert log.head() == LogPosition()
    assert log.read_after(0, 10) == []
    assert log.load_snapshot() is None
    assert log.snapshot_version() is None


def test_append_and_read(log) -> None:
    first = entry_after(LogPosition(), b"a")
    one = log.append(first, LogPosition())
    assert one == LogPosition(1, link_of(first).append_id)
    second = entry_after(one, b"")
    two = log.append(second, one)
    assert log.head() == two == LogPosition(2, link_of(second).append_id)
    assert log.read_after(0, 10) == [(1, first), (2, second)]
    assert log.read_after(1, 10) == [(2, second)]
    assert log.read_after(2, 10) == []


def test_rule_7_an_append_after_another_entry_of_the_same_version_writes_nothing(log) -> None:
    """The chain: a process that was at version 2 of another history must not append to this one."""
    head = fill(log, 2)[-1]
    forked = LogPosition(2, "ab" * 16)
    with pytest.raises(VersionMovedOn):
        log.append(entry_after(forked, b"late"), forked)
    assert log.head() == head


def test_entries_older_than_the_chain_are_followed_by_its_first(log) -> None:
    """They count as if they had no append id: an older program may have appended them at the same time."""
    head = log.append(entry_before_the_chain(b"old"), LogPosition())
    assert head == log.head() == LogPosition(1)
    head = log.append(entry_before_the_chain(b"older"), head)
    log.save_snapshot(head, [b"chunk"])
    assert head == log.head() == LogPosition(2)
    chained = append_values(log, b"new")
    assert chained.version == 3 and chained.append_id != LogPosition().append_id
    with pytest.raises(VersionMovedOn):
        log.append(entry_before_the_chain(b"late"), LogPosition(3))


@pytest.mark.parametrize("expected", [0, 1, 3])
def test_rule_7_an_append_under_another_version_writes_nothing(log, expected) -> None:
    positions = [*fill(log, 2), LogPosition(3, "ab" * 16)]
    with pytest.raises(VersionMovedOn):
        log.append(entry_after(positions[expected], b"late"), positions[expected])
    assert log.head() == positions[2]
    assert versions(log, 0) == [1, 2]


def test_reading_is_limited(log) -> None:
    fill(log, 5)
    assert versions(log, 1, limit=2) == [2, 3]


def test_rule_9_reading_ends_with_the_entry_that_reaches_the_limit_of_bytes(log) -> None:
    head = LogPosition()
    for _ in range(5):
        head = log.append(entry_after(head, b"v" * 1_000), head)
    size_bytes = len(log.read_after(0, 1)[0][1])
    for bytes_max, count in ((1, 1), (size_bytes, 1), (size_bytes + 1, 2), (3 * size_bytes, 3), (2**40, 4)):
        assert [version for version, _ in log.read_after(1, 100, bytes_max)] == list(range(2, 2 + count))
    assert len(log.read_after(1, 2, 2**40)) == 2
    assert log.read_after(5, 100, 1) == []


def test_reading_beyond_the_head_is_damage(log) -> None:
    fill(log, 2)
    with pytest.raises(LogEndsTooEarly):
        log.read_after(3, 1)


def test_another_opener_sees_everything(log, open_again) -> None:
    positions = fill(log, 3)
    log.save_snapshot(positions[2], [b"chunk"])
    other = open_again()
    assert other.head() == positions[3]
    assert versions(other, 0) == [1, 2, 3]
    append_values(other, b"x")
    assert versions(log, 3) == [4]
    assert other.snapshot_version() == 2


def test_a_large_entry(log) -> None:
    entry = entry_after(LogPosition(), bytes(range(256)) * 20_000)
    log.append(entry, LogPosition())
    assert log.read_after(0, 1) == [(1, entry)]


def test_a_snapshot_comes_back(log) -> None:
    log.save_snapshot(fill(log, 2)[2], (bytes([number]) * 10 for number in range(3)))
    snapshot = log.load_snapshot()
    assert snapshot.version == 2
    assert list(snapshot.chunks) == [b"\x00" * 10, b"\x01" * 10, b"\x02" * 10]


def test_a_snapshot_drops_old_entries_but_keeps_some_for_followers(log) -> None:
    """ENTRIES_KEPT is 3 here."""
    positions = fill(log, 10)
    log.save_snapshot(positions[8], [b"chunk"])
    assert versions(log, 5) == [6, 7, 8, 9, 10]
    with pytest.raises(LogTruncated):
        log.read_after(4, 10)
    assert append_values(log, b"next").version == 11


def test_a_newer_snapshot_replaces_the_older_and_never_the_other_way(log) -> None:
    positions = fill(log, 6)
    log.save_snapshot(positions[3], [b"old", b"old"])
    log.save_snapshot(positions[5], [b"new"])
    log.save_snapshot(positions[4], [b"late", b"late"])
    snapshot = log.load_snapshot()
    assert (snapshot.version, list(snapshot.chunks)) == (5, [b"new"])
    assert log.snapshot_version() == 5


def test_the_same_snapshot_may_be_saved_twice(log) -> None:
    head = fill(log, 4)[4]
    log.save_snapshot(head, [b"a", b"b"])
    log.save_snapshot(head, [b"a", b"b"])
    assert list(log.load_snapshot().chunks) == [b"a", b"b"]
    assert log.head() == head


def test_a_snapshot_that_fails_half_way_counts_for_nothing(log) -> None:
    positions = fill(log, 9)
    log.save_snapshot(positions[2], [b"good"])

    def failing():
        yield b"half"
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        log.save_snapshot(positions[9], failing())
    assert (log.snapshot_version(), list(log.load_snapshot().chunks)) == (2, [b"good"])
    assert versions(log, 2) == list(range(3, 10))
    log.save_snapshot(positions[9], [b"whole"])
    assert list(log.load_snapshot().chunks) == [b"whole"]


def test_threads_that_append_at_once_get_each_version_exactly_once(log, open_again) -> None:
    logs = [log, log, open_again(), open_again()]
    won: list[tuple[int, bytes]] = []

    def append_fifty(name: int, mine) -> None:
        done = 0
        while done < 50:
            head = mine.head()
            entry = entry_after(head, b"%d/%d" % (name, done))
            try:
                won.append((mine.append(entry, head).version, entry))
            except VersionMovedOn:
                continue
            done += 1

    threads = [threading.Thread(target=append_fifty, args=pair) for pair in enumerate(logs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == log.read_after(0, 1_000)
    assert [version for version, _ in sorted(won)] == list(range(1, 201))


def test_the_clock_of_a_log_on_this_machine_is_this_machines(log) -> None:
    assert abs(log.clock_offset_ms()) <= 100, "a server on this machine has the same clock"
