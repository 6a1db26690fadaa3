"""What every metadata log does (``store.port``)."""

import threading

import pytest

from siltstone.metadata.store.port import LogEndsTooEarly, LogTruncated, VersionMovedOn


def fill(log, count: int) -> None:
    for version in range(log.head_version(), log.head_version() + count):
        log.append(b"entry %d" % (version + 1), version)


def versions(log, after: int, limit: int = 100) -> list[int]:
    return [version for version, _ in log.read_after(after, limit)]


def test_a_new_log_is_empty(log) -> None:
    assert log.head_version() == 0
    assert log.read_after(0, 10) == []
    assert log.load_snapshot() is None
    assert log.snapshot_version() is None


def test_append_and_read(log) -> None:
    assert log.append(b"a", 0) == 1
    assert log.append(b"", 1) == 2
    assert log.head_version() == 2
    assert log.read_after(0, 10) == [(1, b"a"), (2, b"")]
    assert log.read_after(1, 10) == [(2, b"")]
    assert log.read_after(2, 10) == []


@pytest.mark.parametrize("expected", [0, 1, 3])
def test_rule_7_an_append_under_another_version_writes_nothing(log, expected) -> None:
    fill(log, 2)
    with pytest.raises(VersionMovedOn):
        log.append(b"late", expected)
    assert log.head_version() == 2
    assert versions(log, 0) == [1, 2]


def test_reading_is_limited(log) -> None:
    fill(log, 5)
    assert versions(log, 1, limit=2) == [2, 3]


def test_reading_beyond_the_head_is_damage(log) -> None:
    fill(log, 2)
    with pytest.raises(LogEndsTooEarly):
        log.read_after(3, 1)


def test_another_opener_sees_everything(log, open_again) -> None:
    fill(log, 3)
    log.save_snapshot(2, [b"chunk"])
    other = open_again()
    assert other.head_version() == 3
    assert versions(other, 0) == [1, 2, 3]
    other.append(b"x", 3)
    assert versions(log, 3) == [4]
    assert other.snapshot_version() == 2


def test_a_large_entry(log) -> None:
    entry = bytes(range(256)) * 20_000
    log.append(entry, 0)
    assert log.read_after(0, 1) == [(1, entry)]


def test_a_snapshot_comes_back(log) -> None:
    fill(log, 2)
    log.save_snapshot(2, (bytes([number]) * 10 for number in range(3)))
    snapshot = log.load_snapshot()
    assert snapshot.version == 2
    assert list(snapshot.chunks) == [b"\x00" * 10, b"\x01" * 10, b"\x02" * 10]


def test_a_snapshot_drops_old_entries_but_keeps_some_for_followers(log) -> None:
    """ENTRIES_KEPT is 3 here."""
    fill(log, 10)
    log.save_snapshot(8, [b"chunk"])
    assert versions(log, 5) == [6, 7, 8, 9, 10]
    with pytest.raises(LogTruncated):
        log.read_after(4, 10)
    assert log.append(b"next", 10) == 11


def test_a_newer_snapshot_replaces_the_older_and_never_the_other_way(log) -> None:
    fill(log, 6)
    log.save_snapshot(3, [b"old", b"old"])
    log.save_snapshot(5, [b"new"])
    log.save_snapshot(4, [b"late", b"late"])
    snapshot = log.load_snapshot()
    assert (snapshot.version, list(snapshot.chunks)) == (5, [b"new"])
    assert log.snapshot_version() == 5


def test_the_same_snapshot_may_be_saved_twice(log) -> None:
    fill(log, 4)
    log.save_snapshot(4, [b"a", b"b"])
    log.save_snapshot(4, [b"a", b"b"])
    assert list(log.load_snapshot().chunks) == [b"a", b"b"]
    assert log.head_version() == 4


def test_a_snapshot_that_fails_half_way_counts_for_nothing(log) -> None:
    fill(log, 9)
    log.save_snapshot(2, [b"good"])

    def failing():
        yield b"half"
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        log.save_snapshot(9, failing())
    assert (log.snapshot_version(), list(log.load_snapshot().chunks)) == (2, [b"good"])
    assert versions(log, 2) == list(range(3, 10))
    log.save_snapshot(9, [b"whole"])
    assert list(log.load_snapshot().chunks) == [b"whole"]


def test_threads_that_append_at_once_get_each_version_exactly_once(log, open_again) -> None:
    logs = [log, log, open_again(), open_again()]
    won: list[tuple[int, bytes]] = []

    def append_fifty(name: int, mine) -> None:
        done = 0
        while done < 50:
            entry = b"%d/%d" % (name, done)
            try:
                version = mine.append(entry, mine.head_version())
            except VersionMovedOn:
                continue
            won.append((version, entry))
            done += 1

    threads = [threading.Thread(target=append_fifty, args=pair) for pair in enumerate(logs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == log.read_after(0, 1_000)
    assert [version for version, _ in sorted(won)] == list(range(1, 201))
