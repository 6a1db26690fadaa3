"""A metadata client meets another history, and clocks that differ."""

import pytest

from siltstone.metadata.client import (
    CLOCK_OFFSET_MS_MAX,
    ClockTooFarOff,
    MetadataClient,
    clock_difference,
    refuse_wrong_clock,
)
from siltstone.metadata.commands import (
    PrepareObjects,
    PutKey,
    RegisterNode,
    RemoveKey,
)
from siltstone.metadata.log_entry import LogForked, LogPosition, decode_entry
from siltstone.metadata.store.memory import MemoryLog
from siltstone.metadata.store.port import (
    LogEndsTooEarly,
)
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from support.metadata.faulty_log import Fault, FaultyLog
from support.metadata.log_entries import append_values, entry_after, entry_before_the_chain


@pytest.fixture
def memory() -> MemoryLog:
    return MemoryLog()


@pytest.fixture
def log(memory) -> FaultyLog:
    return FaultyLog(memory)


def client_of(log, seed: int = 1, **settings) -> MetadataClient:
    return MetadataClient(log, ManualClock(), seeded_randomness(seed), **settings)


def put(key: str, value: bytes = b"v") -> PutKey:
    return PutKey(key, value, overwrite=True)


def history(*values: bytes, entries_kept: int = 1_000) -> MemoryLog:
    """A log with one entry for each value. Two histories have equal entries as far as their values are equal."""
    log = MemoryLog(entries_kept)
    append_values(log, *values)
    return log


SIX = (b"1", b"2", b"3", b"4'", b"5'", b"6'")


def test_p09_a_follower_does_not_mix_two_histories(log) -> None:
    """It is at 5; the new primary has 3 of them and continued to 6."""
    log.log = history(b"1", b"2", b"3", b"4", b"5")
    client = client_of(log)
    before = client.image
    log.log = history(*SIX)
    for _ in range(2):
        with pytest.raises(LogForked, match=f"entry 5 has append id {before.append_id}"):
            client.refresh()
        with pytest.raises(LogForked):
            client.execute(put("k"))
    assert client.image == before and log.log.head().version == 6


@pytest.mark.parametrize("command", [put("k"), RemoveKey("absent")], ids=["with records", "without records"])
def test_p10_another_history_of_the_same_length_is_a_fork(log, command) -> None:
    log.log = history(b"1", b"2", b"3")
    client = client_of(log)
    log.log = history(b"1", b"2", b"3'")
    with pytest.raises(LogForked, match=r"entry 3 .* is another one"):
        client.execute(command)
    assert log.log.head().version == 3


def test_a_shorter_history_is_a_log_that_ends_too_early(log) -> None:
    log.log = history(b"1", b"2", b"3")
    client = client_of(log)
    log.log = history(b"1", b"2")
    with pytest.raises(LogEndsTooEarly):
        client.execute(put("k"))


def test_p09_an_uncertain_append_is_not_looked_for_in_another_history(log) -> None:
    """The entry at the next version is not ours, and it does not follow our image either."""
    log.log = history(b"1", b"2")
    client = client_of(log)
    log.faults.append(Fault.LOST)
    log.before_append.extend([lambda: None, lambda: setattr(log, "log", history(b"1", b"2'", b"3'"))])
    with pytest.raises(LogForked):
        client.execute(put("k"))


def test_p09_an_uncertain_append_and_another_history_of_the_same_length(log) -> None:
    log.log = history(b"1", b"2")
    client = client_of(log)
    log.faults.append(Fault.LOST)
    log.before_append.extend([lambda: None, lambda: setattr(log, "log", history(b"1", b"2'"))])
    with pytest.raises(LogForked):
        client.execute(put("k"))


def test_a_snapshot_holds_the_end_of_the_chain(log) -> None:
    """A client that starts from the snapshot recognises an entry that does not follow it."""
    client = client_of(log.log, snapshot_interval_records=3)
    for number in range(3):
        client.execute(put(f"k{number}"))
    again = client_of(log)
    assert again.image.position == client.image.position == log.head()
    stranger = LogPosition(3, "ab" * 16)
    log.log._head = stranger
    log.log.append(entry_after(stranger, b"x"), stranger)
    with pytest.raises(LogForked):
        client_of(log)


def test_an_older_store_goes_on_and_its_chain_begins_with_the_next_entry(memory) -> None:
    head = LogPosition()
    for value in (b"1", b"2"):
        head = memory.append(entry_before_the_chain(value), head)
    one, two = client_of(memory, 1), client_of(memory, 2)
    assert one.image.position == LogPosition(2)
    assert one.execute(RemoveKey("absent")) is None, "answered without records at an entry without append id"
    one.execute(put("first of the chain"))
    two.execute(put("second"))
    entries = [decode_entry(encoded) for _, encoded in memory.read_after(2, 10)]
    assert [entry.previous for entry in entries] == ["00" * 16, entries[0].append_id]
    assert one.refresh() == two.image == client_of(memory, 3).image


def test_a_chain_that_has_begun_cannot_be_left(memory) -> None:
    client = client_of(memory)
    client.execute(put("k"))
    memory.append(entry_before_the_chain(b"by an older program"), memory.head())
    with pytest.raises(LogForked, match=r"entry 2 .* names no entry before it"):
        client.refresh()
    with pytest.raises(LogForked):
        client_of(memory, 2)


def test_the_append_id_of_an_entry_is_known_while_the_log_has_it(memory) -> None:
    memory._entries_kept = 1
    client = client_of(memory, snapshot_interval_records=3)
    assert client.append_id_at(0) == LogPosition().append_id
    positions = []
    for number in range(4):
        client.execute(put(f"k{number}"))
        positions.append(client.image.position)
    found = [client.append_id_at(version) for version in (1, 2, 3, 4)]
    assert found == [None, None, positions[2].append_id, positions[3].append_id]
    assert client.append_id_at(0) is None


def test_p16_commands_are_decided_by_the_clock_of_the_log(log, caplog) -> None:
    client = client_of(log)
    own_ms = ManualClock().now_ms()
    assert client.now_ms() == own_ms
    log.clock_is_ahead_ms = 999
    assert client.now_ms() == own_ms + 999
    assert caplog.messages == []
    log.clock_is_ahead_ms = -5_000
    assert [client.now_ms(), client.now_ms()] == [own_ms - 5_000] * 2
    assert caplog.messages == [
        "the clock of this machine is 5000 ms ahead of the clock of the metadata log; "
        "have both set by the network's time"
    ]
    client.execute_all([RegisterNode(0, "a", ""), PrepareObjects(1, 3_000, node_id=0, node_epoch=1)])
    assert client.image.objects[0].deadline_ms == own_ms - 2_000


@pytest.mark.parametrize(
    ("offset_ms", "told"),
    [(1, "1 ms behind the clock of the metadata log"), (-1, "1 ms ahead of the clock of the metadata log")],
)
def test_p16_which_of_the_two_clocks_is_behind(offset_ms: int, told: str) -> None:
    """The offset is what is added to this machine's time to get the log's."""
    assert f"the clock of this machine is {told};" in clock_difference(offset_ms)


@pytest.mark.parametrize("offset_ms", [CLOCK_OFFSET_MS_MAX, -CLOCK_OFFSET_MS_MAX])
def test_p16_no_node_is_registered_with_a_wrong_clock(offset_ms) -> None:
    refuse_wrong_clock(offset_ms - offset_ms // abs(offset_ms))
    with pytest.raises(ClockTooFarOff, match="is not registered: the clock of this machine is 30000 ms"):
        refuse_wrong_clock(offset_ms)
