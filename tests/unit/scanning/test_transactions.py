"""The outcomes of transactions that the objects of a partition show, with and without a snapshot, against a list of
what was written."""

from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from siltstone.kafka_protocol.batch_header import TRANSACTIONAL_BIT
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.control import Outcome, TransactionMarker, build_control_batch
from siltstone.kafka_protocol.records.reading import Record
from siltstone.metadata.commands import OpenStream
from siltstone.model.errors import Unavailable
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.aborted_page import encode_aborted_page
from siltstone.object_formats.partition_snapshot import (
    AbortedPage,
    AbortedTransaction,
    PartitionSnapshot,
    ProducerEntry,
    SnapshotBody,
    TimeIndexState,
    encode_snapshot,
    pack_aborted,
)
from siltstone.offline.topic_streams import put_transactional_from
from siltstone.offline.transactions import AbortedTransactions
from siltstone.scanning import reading, transactions
from siltstone.scanning.planning import ScanPartition, wanted_partitions
from siltstone.scanning.request import ScanRequest
from siltstone.scanning.tail import NO_MARKER, TailEnds, _until_markers
from siltstone.scanning.transactions import (
    CommittedEnds,
    aborted_of,
    are_aborted,
)
from siltstone.scanning.unit import ScanPiece
from support.maintenance.keyed_world import KeyedWorld, keyed_world

RECORD = [Record(timestamp_ms=5, value=b"v")]
PLAIN = -1


class Written:
    """A partition to which transactions write, and the list of what they wrote: (producer, outcome or None)."""

    def __init__(self, world: KeyedWorld) -> None:
        self.world = world
        (self.stream,) = world.topic(cleanup_policy="delete")
        self.topic = world.topic_named()
        self.meta = self.topic.partitions[0].meta_stream_id
        world.metadata.execute(OpenStream(0, 1, self.meta, 0))
        self.list: list[tuple[int, Outcome | None]] = []
        self._waiting: list[RecordBatch] = []

    @property
    def partition(self) -> ScanPartition:
        (found,) = wanted_partitions(self.world.image, ScanRequest(topics=("t",)))
        return found

    def write(self, producer_id: int, outcome: Outcome | None = None) -> None:
        offset = len(self.list)
        if outcome is not None:
            marker = TransactionMarker(outcome, 0)
            payload = build_control_batch(
                marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=5, base_offset=offset
            )
        elif producer_id == PLAIN:
            payload = build_batch(RECORD, base_offset=offset)
        else:
            payload = build_batch(
                RECORD, base_offset=offset, producer_id=producer_id, producer_epoch=0, base_sequence=0,
                attributes=TRANSACTIONAL_BIT,
            )  # fmt: skip
        if producer_id != PLAIN and outcome is None:
            self.world.metadata.execute(put_transactional_from(self.topic.topic_id, 0, offset))
        self.list.append((producer_id, outcome))
        self._waiting.append(RecordBatch(self.stream, 0, offset, offset + 1, 1, 5, 5, payload))

    def upload(self) -> None:
        if self._waiting:
            self.world.upload(self._waiting, 0, alone=True)
            self._waiting = []

    def snapshot(self, next_offset: int, *, per_page: int = 10**6) -> None:
        """``per_page``: as many of the aborted transactions are in each page; the newest page has none after it."""
        opened, aborted = self.expected(next_offset)
        producers = tuple(ProducerEntry(each, 0, 5, (), 0, first) for each, first in opened.items())
        pages: list[AbortedPage] = []
        while len(aborted) >= per_page:
            page, aborted = aborted[:per_page], aborted[per_page:]
            meta_offset = self.meta_record(encode_aborted_page(pack_aborted(page)))
            pages.append(AbortedPage(meta_offset, page[-1].marker_offset))
        body = SnapshotBody(producers, TimeIndexState(), aborted=pack_aborted(aborted), pages=tuple(pages))
        self.meta_record(encode_snapshot(PartitionSnapshot(next_offset, body)))

    def meta_record(self, payload: bytes) -> int:
        at = self.world.stream(self.meta).end_offset
        self.world.upload([RecordBatch(self.meta, 0, at, at + 1, 1, -1, -1, payload)], 0, alone=True)
        return at

    def expected(self, end: int) -> tuple[dict[int, int], list[AbortedTransaction]]:
        """What is open and what was aborted below an offset, by the list."""
        opened: dict[int, int] = {}
        aborted = []
        for offset, (producer_id, outcome) in enumerate(self.list[:end]):
            if producer_id == PLAIN:
                continue
            if outcome is None:
                opened.setdefault(producer_id, offset)
            elif producer_id in opened:
                first = opened.pop(producer_id)
                if outcome is Outcome.ABORT:
                    aborted.append(AbortedTransaction(producer_id, first, offset))
        return opened, aborted

    def assert_found(self, known: CommittedEnds) -> dict[int, int]:
        """Compares what the objects show with the list; returns what is open."""
        opened, aborted = self.expected(self.world.stream(self.stream).end_offset)
        found = known.in_objects(self.world.image, self.partition).outcomes
        assert (dict(found.opened), list(found.aborted())) == (opened, aborted)
        return opened

    def outcomes(self) -> Any:
        return CommittedEnds(self.world.context).in_objects(self.world.image, self.partition).outcomes


@pytest.fixture
def written() -> Iterator[Written]:
    reading.INDEXES.clear()  # another world's objects have the same ids
    with keyed_world() as world:
        yield Written(world)


def test_without_transactions_nothing_is_read(written: Written) -> None:
    written.write(PLAIN)
    written.upload()
    written.world.store.calls.clear()
    assert written.outcomes().first_undecided is None
    assert not written.world.store.calls


@pytest.mark.parametrize("seed", range(6))
def test_tp49_the_objects_tell_the_outcomes(written: Written, seed: int) -> None:
    rng, continued = Random(seed), CommittedEnds(written.world.context)
    for _ in range(60):
        match rng.randrange(8):
            case 0:
                written.upload()
                written.assert_found(continued)
            case 1 | 2:
                written.write(rng.randrange(3), rng.choice([Outcome.ABORT, Outcome.COMMIT]))
            case 3:
                written.write(PLAIN)
            case 4 if rng.random() < 0.4:
                per_page = rng.choice([1, 2, 10**6])
                written.snapshot(rng.randrange(len(written.list) + 1), per_page=per_page)
                if rng.random() < 0.3:
                    written.meta_record(
                        encode_aborted_page(b"")
                    )  # the snapshot after it is not in an object yet
            case _:
                written.write(rng.randrange(3))
    written.assert_found(continued)
    opened = written.assert_found(CommittedEnds(written.world.context))
    expected = {("t", 0): min(opened.values())} if opened else {}
    known = CommittedEnds(written.world.context)
    assert known.undecided(written.world.image, [written.topic]) == expected


def test_a_snapshot_saves_reading_what_lies_before_it(written: Written) -> None:
    for _ in range(5):
        written.write(0)
        written.upload()
    written.write(0, Outcome.ABORT)
    written.upload()
    written.snapshot(5)
    written.world.store.calls.clear()
    assert list(written.outcomes().aborted()) == [AbortedTransaction(0, 0, 5)]
    read = [call for call in written.world.store.calls if "get_range" in str(call)]
    assert 0 < len(read) <= 4, (
        "the object of the marker and that of the snapshot, their ends and their blocks"
    )


def test_a_page_that_is_damaged_or_missing_costs_reading_all(written: Written) -> None:
    for _ in range(3):
        written.write(0)
        written.write(0, Outcome.ABORT)
    written.upload()
    expected = written.expected(6)[1]
    no_page = written.meta_record(b"not one")
    for meta_offset in (no_page, no_page + 99):
        body = SnapshotBody((), TimeIndexState(), pages=(AbortedPage(meta_offset, 5),))
        written.meta_record(encode_snapshot(PartitionSnapshot(6, body)))
        assert list(written.outcomes().aborted()) == expected


def test_a_snapshot_that_is_damaged_or_of_a_later_offset_is_not_used(written: Written) -> None:
    written.write(0)
    written.write(0, Outcome.ABORT)
    written.upload()
    at = written.world.stream(written.meta).end_offset
    written.world.upload([RecordBatch(written.meta, 0, at, at + 1, 1, -1, -1, b"not one")], 0, alone=True)
    assert list(written.outcomes().aborted()) == [AbortedTransaction(0, 0, 1)]
    body = SnapshotBody((), TimeIndexState())
    payload = encode_snapshot(PartitionSnapshot(99, body))
    written.world.upload([RecordBatch(written.meta, 0, at + 1, at + 2, 1, -1, -1, payload)], 0, alone=True)
    assert list(written.outcomes().aborted()) == [AbortedTransaction(0, 0, 1)]


class AskedEnds(TailEnds):
    """An owner that says where its partition is decided, and which transactions it has aborted."""

    def __init__(self, end: int, aborted: set[int]) -> None:
        super().__init__("")
        self.end, self.aborted, self.asked = end, aborted, list[int]()

    def asked_end(self, partition: ScanPartition) -> int | None:
        return self.end

    def is_aborted(self, partition: ScanPartition, producer_id: int, first_offset: int) -> bool:
        self.asked.append(producer_id)
        return producer_id in self.aborted


def test_an_owner_says_how_transactions_ended_whose_markers_are_in_its_tail(written: Written) -> None:
    for producer_id in (0, 1, 2):
        written.write(producer_id)
    written.upload()
    known = CommittedEnds(written.world.context)
    ends = AskedEnds(2, {1})
    found = known.limit(written.world.image, [written.partition], ends)
    assert ends.asked == [0, 1], "the third is not decided yet"
    assert list(found["t", 0]) == [AbortedTransaction(1, 1, 3)]
    assert ends.end_of(written.partition) == 2
    written.world.store.calls.clear()
    nobody = TailEnds("")
    known.limit(written.world.image, [written.partition], nobody)
    assert nobody.end_of(written.partition) == 0
    assert not written.world.store.calls, "what the objects say is known"


def test_a_piece_names_the_aborted_transactions_that_touch_it() -> None:
    entries = [AbortedTransaction(1, 0, 5), AbortedTransaction(2, 7, 20)]
    piece = ScanPiece("t", 0, 1, 2, 0, 100, 6, 15, 50)
    assert aborted_of(piece, {("t", 0): AbortedTransactions(entries)}) == ((2, 7, 20),)
    assert aborted_of(piece, {}) == ()


class Rows(SimpleNamespace):
    def __len__(self) -> int:
        return len(self.base_offsets)


def batches(*rows: tuple[int, int, bool, bool]) -> Any:
    """(offset, producer, is transactional, is control)."""
    offsets, producers, transactional, control = (np.array(each) for each in zip(*rows, strict=True))
    return Rows(
        base_offsets=offsets, producer_ids=producers, are_transactional=transactional, are_control=control
    )


def test_batches_of_an_aborted_transaction_are_marked() -> None:
    made = batches((0, 1, True, False), (1, 2, True, False), (2, 1, False, False), (3, 1, True, True))
    found = are_aborted(made, [(1, 0, 3)])
    assert found is not None and found.tolist() == [True, False, False, False]
    assert are_aborted(made, []) is None


def test_an_aborted_transaction_of_an_answer_ends_at_its_marker() -> None:
    made = batches((4, 1, True, False), (5, 1, True, True), (6, 1, True, False), (7, 2, True, True))
    aborted = [(1, 2, NO_MARKER), (2, 1, NO_MARKER), (3, 4, NO_MARKER)]
    assert _until_markers(made, aborted) == [(1, 2, 5), (2, 1, 7), (3, 4, NO_MARKER)]
    assert _until_markers(made, []) == ()


def test_a_read_that_fails_leaves_nothing_counted_in_part(
    written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = CommittedEnds(written.world.context)
    written.write(0)
    written.upload()
    written.assert_found(known)
    for _ in range(3):
        written.write(0, Outcome.ABORT)
        written.write(0)
        written.upload()
    real, left = transactions._count, [2]

    def count(*given: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Unavailable("the bucket does not answer")
        real(*given)

    with monkeypatch.context() as failing:
        failing.setattr(transactions, "_count", count)
        with pytest.raises(Unavailable):
            written.assert_found(known)
    written.assert_found(known)
