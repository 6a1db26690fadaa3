import threading
from collections.abc import Iterator

import pytest

from siltstone.metadata.client import (
    APPEND_ATTEMPTS_MAX,
    APPEND_MS_MAX,
    ENTRIES_PER_READ,
    RIVALS_REMEMBERED_MS,
    CommitUnknown,
    MetadataClient,
)
from siltstone.metadata.commands import (
    CommitUpload,
    CreateStream,
    ExpireObjects,
    ForgetObjects,
    OpenStream,
    PinScan,
    PrepareObjects,
    PutKey,
    RegisterNode,
    RemoveKey,
)
from siltstone.metadata.log_entry import LogEntry, encode_entry
from siltstone.metadata.lookup import deletable_objects
from siltstone.metadata.records import KeySet, StreamClosed
from siltstone.metadata.refusals import GracePeriodRunning, NodeEpochExpired, ObjectNotExist, Refusal
from siltstone.metadata.snapshot import encode_snapshot
from siltstone.metadata.store.memory import MemoryLog
from siltstone.metadata.store.port import (
    READ_BYTES_MAX,
    LogEndsTooEarly,
    LogTruncated,
    LogUnavailable,
    Snapshot,
)
from siltstone.metadata.store.sqlite import SqliteLog
from siltstone.model.errors import CorruptData
from siltstone.model.limits import GRACE_PERIOD_MS
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from support.metadata.faulty_log import Fault, FaultyLog
from support.metadata.log_entries import append_values
from support.metadata.metadata_world import new_object


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


def test_two_clients_follow_each_other(memory) -> None:
    one, two = client_of(memory, 1), client_of(memory, 2)
    one.execute(put("a"))
    assert "a" not in two.image.keys
    assert two.refresh().keys["a"] == b"v"
    two.execute(put("b"))
    assert one.execute(PutKey("b", b"other")) == b"v"
    assert one.image == two.image


def test_a_command_is_decided_again_when_the_version_moved_on(memory) -> None:
    one, two = client_of(memory, 1), client_of(memory, 2)
    one.execute(RegisterNode(0, "a", ""))
    two.refresh()
    assert [one.execute(CreateStream(0, 1)), two.execute(CreateStream(0, 1))] == [0, 1]


def test_a_client_that_met_rivals_waits_for_its_turn_until_it_meets_no_more(memory, log) -> None:
    clock = ManualClock()
    rival = client_of(memory, 1)
    client = MetadataClient(log, clock, seeded_randomness(2))

    def turns_of(key: str) -> int:
        before = log.turns
        client.execute(PutKey(key, b""))
        return log.turns - before

    assert turns_of("alone") == 0
    log.before_append.append(lambda: rival.execute(PutKey("rival", b"")))
    assert turns_of("loses once") == 1
    assert turns_of("in turn") == 1
    clock.advance_ms(RIVALS_REMEMBERED_MS / 2)
    rival.execute(PutKey("rival again", b""))
    appends = log.appends
    assert turns_of("reads first") == 1
    assert log.appends == appends + 1, "it lost nothing"
    clock.advance_ms(RIVALS_REMEMBERED_MS * 3 / 4)
    assert turns_of("remembers the last one") == 1
    clock.advance_ms(RIVALS_REMEMBERED_MS)
    assert turns_of("alone again") == 0


def test_a_turn_that_is_held_still_is_not_read_in_again(memory, log) -> None:
    client = client_of(log)
    client._met_rivals()
    log.turn_is_new = False
    rival = client_of(memory, 3)
    rival.execute(PutKey("unexpected", b""))
    client.execute(PutKey("a", b""))
    assert log.appends == 2, "the first one met the entry: a turn protects nothing"
    assert client.image.keys.keys() >= {"unexpected", "a"}


def test_sr28_entries_applied_at_once_and_one_by_one_give_one_image_and_one_snapshot(memory) -> None:
    """A client that starts, or was behind, applies up to 1,000 entries on one draft; the writer applied each alone."""
    writer, behind = client_of(memory, 1), client_of(memory, 2)
    writer.execute(RegisterNode(0, "a", ""))
    for number in range(ENTRIES_PER_READ // 4 + 20):
        object_id = writer.execute(PrepareObjects(1, 1, node_id=0, node_epoch=1))
        writer.execute(PinScan(f"q{number}", 60_000))
        writer._clock.advance_ms(1)
        writer.execute(ExpireObjects(1, (object_id,)))
        writer.execute(PinScan(f"q{number // 2}", 60_000 + number, renews=True))
    assert writer.image.version > ENTRIES_PER_READ
    at_once = (client_of(memory, 3).image, behind.refresh())
    versions = {held.destroyed_version for held in writer.image.objects.values()}
    assert len(versions) == len(writer.image.objects), "each was destroyed by an entry of its own"
    for image in at_once:
        assert image == writer.image
        assert list(encode_snapshot(image)) == list(encode_snapshot(writer.image))


def test_rule_7_a_stale_image_refuses_nothing_and_permits_nothing(memory) -> None:
    """The image of ``one`` lags; every answer it gives is that of the head all the same."""
    one, two = client_of(memory, 1), client_of(memory, 2)
    one.execute(RegisterNode(0, "a", ""))
    two.execute(RegisterNode(0, "b", ""))
    with pytest.raises(NodeEpochExpired):
        one.execute(CreateStream(0, 1))
    two.execute(RegisterNode(5, "c", ""))
    assert one.execute(CreateStream(5, 1)) == 0, "node 5 was unknown to the stale image"
    two.execute(put("k"))
    assert one.execute(RemoveKey("k")) is None
    assert "k" not in two.refresh().keys, "the stale image had nothing to remove"


def test_many_commands_cost_one_append_and_see_each_other(log) -> None:
    client = client_of(log)
    answers = client.execute_all(
        [
            RegisterNode(0, "a", ""),
            CreateStream(0, 1),
            CreateStream(0, 9),
            OpenStream(0, 1, 0, 0),
            PrepareObjects(1, 1_000, node_id=0, node_epoch=1),
            CommitUpload(0, 1, new_object(0, (0, 0, 10))),
            CommitUpload(0, 1, new_object(0, (0, 0, 10))),
            PutKey("k", b"v"),
        ]
    )
    assert [answer.code if isinstance(answer, Refusal) else "OK" for answer in answers] == [
        "OK", "OK", "NODE_EPOCH_NOT_EXIST", "OK", "OK", "OK", "OK", "OK",
    ]  # fmt: skip
    assert (log.appends, client.image.version) == (1, 1)
    assert client_of(log).image == client.image


def test_nothing_to_write_costs_no_append_but_a_look_at_the_head(log) -> None:
    client = client_of(log)
    assert client.execute_all([]) == []
    assert client.execute(RemoveKey("absent")) is None
    assert (log.appends, log.heads) == (0, 2)


@pytest.mark.parametrize(
    "faults",
    [
        [Fault.UNAVAILABLE],
        [Fault.LOST],
        [Fault.DONE],
        [Fault.LATE],
        [Fault.LOST, Fault.UNAVAILABLE, Fault.DONE],
        [Fault.LATE, Fault.UNAVAILABLE],
        [Fault.LOST, Fault.LOST, Fault.LATE],
    ],
)
def test_rule_5_an_uncertain_append_happens_exactly_once(log, faults) -> None:
    client = client_of(log)
    client.execute(RegisterNode(0, "a", ""))
    log.faults.extend(faults)
    assert client.execute(CreateStream(0, 1)) == 0
    assert client.execute(CreateStream(0, 1)) == 1
    assert sorted(client_of(log, 2).image.streams) == [0, 1]
    assert log.head().version == 3


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.DONE])
def test_rule_5_uncertain_while_somebody_else_appends(log, memory, fault) -> None:
    """After the lost answer another process appends: its entry, or ours, has the next version."""
    client, other = client_of(log), client_of(memory, 2)
    client.execute(RegisterNode(0, "a", ""))
    log.faults.append(fault)
    log.before_append.extend([lambda: None, lambda: other.execute(put("k"))])
    assert client.execute(CreateStream(0, 1)) == 0
    assert sorted(other.refresh().streams) == [0]
    assert log.head().version == 3


@pytest.mark.parametrize("reads_failing", [1, 3, APPEND_ATTEMPTS_MAX])
def test_rule_5_an_entry_that_is_there_and_cannot_be_read_is_not_taken_for_refused(
    log, monkeypatch, reads_failing
) -> None:
    """A simulation saw it: a node served on a partition that it had given up, and what it acknowledged was lost."""
    client = client_of(log)
    failing, read_after = iter(range(reads_failing)), log.read_after

    def busy_at_first(version: int, limit: int) -> list[tuple[int, bytes]]:
        if next(failing, None) is not None:
            raise LogUnavailable("busy")
        return read_after(version, limit)

    log.faults.append(Fault.DONE)
    monkeypatch.setattr(log, "read_after", busy_at_first)
    if reads_failing == APPEND_ATTEMPTS_MAX:
        with pytest.raises(CommitUnknown):
            client.execute(put("mine"))
    else:
        client.execute(put("mine"))
    assert log.head().version == 1
    assert set(client_of(log.log, 2).image.keys) == {"mine"}


def test_rule_5_what_stays_unknown_is_said_to_be(log) -> None:
    client = client_of(log)
    log.faults.extend([Fault.LOST] * APPEND_ATTEMPTS_MAX)
    with pytest.raises(CommitUnknown):
        client.execute(put("k"))
    assert client.execute(put("k")) == b"v", "asked again"


def test_a_log_that_takes_nothing_is_unavailable_not_unknown(log) -> None:
    client = client_of(log)
    log.faults.extend([Fault.UNAVAILABLE] * APPEND_ATTEMPTS_MAX)
    with pytest.raises(LogUnavailable):
        client.execute(put("k"))
    assert log.head().version == 0


@pytest.mark.parametrize(
    ("fault", "failure"), [(Fault.UNAVAILABLE, LogUnavailable), (Fault.LOST, CommitUnknown)]
)
def test_rule_12_a_log_that_is_silent_is_given_up_after_15_s_and_one_call(log, fault, failure) -> None:
    clock = ManualClock()
    client = MetadataClient(log, clock, seeded_randomness(1))
    log.faults.extend([fault] * APPEND_ATTEMPTS_MAX)
    log.before_append.extend([lambda: clock.block_ms(10_000)] * APPEND_ATTEMPTS_MAX)
    begun_ms = clock.monotonic_ms()
    with pytest.raises(failure, match=r"2 attempts .*in 20 s; "):
        client.execute(put("k"))
    assert clock.monotonic_ms() - begun_ms < APPEND_MS_MAX + 10_000


def test_rule_5_an_uncertain_append_that_was_dropped_with_the_log_is_unknown(log, memory) -> None:
    memory._entries_kept = 0
    client, other = client_of(log), client_of(memory, 2, snapshot_interval_records=1)
    log.faults.append(Fault.DONE)
    log.before_append.extend([lambda: None, lambda: other.execute(put("other"))])
    with pytest.raises(CommitUnknown):
        client.execute(put("mine"))
    assert set(client.refresh().keys) == {"mine", "other"}


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.LOST])
def test_backing_off_takes_longer_and_longer(fault: Fault) -> None:
    log, clock = FaultyLog(MemoryLog()), ManualClock()
    client = MetadataClient(log, clock, seeded_randomness(1))
    waits = []
    for _ in range(3):
        log.faults.extend([fault] * (len(waits) + 1))
        before = clock.monotonic_ms()
        client.execute(put("k", bytes([len(waits)])))
        waits.append(clock.monotonic_ms() - before)
    assert 10 <= waits[0] <= 20 and 30 <= waits[1] <= 60 and 70 <= waits[2] <= 140


def test_snapshots_are_taken_and_used(memory) -> None:
    client = client_of(memory, snapshot_interval_records=10)
    for number in range(25):
        client.execute(put(f"k{number}"))
    assert memory.snapshot_version() == 20
    again = client_of(memory, 2)
    assert again.image == client.image


def test_two_clients_do_not_take_the_same_snapshot_twice(memory) -> None:
    one = client_of(memory, 1, snapshot_interval_records=10)
    two = client_of(memory, 2, snapshot_interval_records=10)
    for number in range(10):
        one.execute(put(f"k{number}"))
    assert memory.snapshot_version() == 10
    two.refresh()
    assert two.save_snapshot_if_due() is False
    assert two.save_snapshot_if_due() is False
    for number in range(10, 20):
        two.execute(put(f"k{number}"))
    assert memory.snapshot_version() == 20


def test_a_snapshot_that_fails_does_not_fail_the_command(log) -> None:
    client = client_of(log, snapshot_interval_records=1)
    log.snapshot_fails = True
    assert client.execute(put("k")) == b"v"
    assert log.snapshot_version() is None


def test_a_follower_left_behind_loads_the_snapshot(memory) -> None:
    memory._entries_kept = 2
    behind = client_of(memory, 1)
    ahead = client_of(memory, 2, snapshot_interval_records=10)
    for number in range(15):
        ahead.execute(put(f"k{number}"))
    with pytest.raises(LogTruncated):
        memory.read_after(behind.image.version, 1)
    assert behind.refresh() == ahead.image
    assert behind.image.version == 15


def test_a_truncated_log_without_its_snapshot_is_damage(memory) -> None:
    memory._entries_kept = 0
    client = client_of(memory, snapshot_interval_records=1)
    client.execute(put("k"))
    memory._snapshot = None
    with pytest.raises(LogEndsTooEarly):
        client_of(memory, 2)


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param(b"no entry", id="truncated"),
        pytest.param(encode_entry(LogEntry("00" * 16, (KeySet("k", b"v"),)))[:-1] + b"\x00", id="damaged"),
        pytest.param(encode_entry(LogEntry("00" * 16, (StreamClosed(7),))), id="does not fit the image"),
    ],
)
def test_rule_8_a_damaged_log_stops_the_client(memory, entry) -> None:
    client = client_of(memory)
    append_values(memory, b"whole")
    memory._entries[0] = entry
    with pytest.raises(CorruptData):
        client.refresh()
    assert client.image.version == 0


def test_threads_share_a_client(tmp_path) -> None:
    logs = [SqliteLog(tmp_path / "metadata.sqlite") for _ in range(2)]
    clients = [client_of(one, seed, snapshot_interval_records=30) for seed, one in enumerate(logs)]
    clients[0].execute(RegisterNode(0, "a", ""))
    made: list[int] = []

    def create(client) -> None:
        made.extend(client.execute(CreateStream(0, 1)) for _ in range(20))

    threads = [threading.Thread(target=create, args=(clients[number % 2],)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == list(range(80))
    assert clients[0].refresh() == clients[1].refresh()
    assert logs[0].snapshot_version() >= 30
    for client in clients:
        client.close()


def test_t27_by_the_clock(memory) -> None:
    """Prepare for 3 s, wait 4 s: destroyed; the grace period later: gone. Two clients, one clock."""
    clock = ManualClock()
    node = MetadataClient(memory, clock, seeded_randomness(1))
    sweep = MetadataClient(memory, clock, seeded_randomness(2))
    node.execute_all([RegisterNode(0, "a", ""), CreateStream(0, 1), OpenStream(0, 1, 0, 0)])
    node.execute(PrepareObjects(1, 3_000, node_id=0, node_epoch=1))
    clock.advance_ms(2_999)
    assert sweep.execute(ExpireObjects(100)) == ()
    clock.advance_ms(1_001)
    assert sweep.execute(ExpireObjects(100)) == (0,)
    before = memory.head().version
    with pytest.raises(ObjectNotExist):
        node.execute(CommitUpload(0, 1, new_object(0, (0, 0, 10))))
    assert memory.head().version == before
    clock.advance_ms(GRACE_PERIOD_MS - 1)
    assert deletable_objects(sweep.image, clock.now_ms(), GRACE_PERIOD_MS, 1_000) == []
    with pytest.raises(GracePeriodRunning):
        sweep.execute(ForgetObjects((0,)))
    clock.advance_ms(1)
    (due,) = deletable_objects(sweep.image, clock.now_ms(), GRACE_PERIOD_MS, 1_000)
    sweep.execute(ForgetObjects((due.object_id,)))
    assert not node.refresh().objects


def test_a_start_replays_the_log(memory) -> None:
    """More entries than one read takes."""
    client = client_of(memory)
    for number in range(ENTRIES_PER_READ + 50):
        client.execute(put(f"k{number % 100}", b"%d" % number))
    assert client_of(memory, 2).image == client.image


def test_rule_9_a_start_reads_large_entries_a_few_at_a_time(memory) -> None:
    reads: list[int] = []

    class Counted(FaultyLog):
        def read_after(self, *arguments: int) -> list[tuple[int, bytes]]:
            entries = super().read_after(*arguments)
            reads.append(sum(len(entry) for _, entry in entries))
            return entries

    client, size_bytes = client_of(memory), READ_BYTES_MAX // 4
    for number in range(10):
        client.execute(put(f"k{number}", bytes(size_bytes)))
    assert client_of(Counted(memory), 2).image == client.image
    assert len(reads) == 3 and max(reads) < READ_BYTES_MAX + size_bytes


def test_a_snapshot_that_is_replaced_again_and_again_is_given_up() -> None:
    class Restless(MemoryLog):
        """Each snapshot is replaced while it is read."""

        loads = 0

        def load_snapshot(self) -> Snapshot:
            self.loads += 1
            return Snapshot(self.loads, self.chunks())

        def chunks(self) -> Iterator[bytes]:
            raise LogTruncated("a newer snapshot")
            yield b""

    log = Restless()
    with pytest.raises(LogUnavailable, match=f"replaced {APPEND_ATTEMPTS_MAX} times"):
        MetadataClient(log, ManualClock(), seeded_randomness(1))
    assert log.loads == APPEND_ATTEMPTS_MAX


def test_a_turn_in_which_nothing_can_be_read_is_appended_in_all_the_same(memory, log) -> None:
    client = client_of(log)
    client._met_rivals()
    log.read_fails = True
    client.execute(PutKey("a", b""))
    assert "a" in client_of(memory, 3).image.keys
