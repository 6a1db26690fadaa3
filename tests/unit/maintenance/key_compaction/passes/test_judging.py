"""What becomes of a batch, once it is known how many of its records stay."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from siltstone.kafka_protocol.records.control import Outcome, TransactionMarker, build_control_batch
from siltstone.maintenance.key_compaction.passes.first_scan import Learned
from siltstone.maintenance.key_compaction.passes.judging import Judge, RecordVerdict, TransactionsSeen
from siltstone.maintenance.key_compaction.passes.key_map import KeyMap
from siltstone.maintenance.record_rewriting.chunk_writing import RecordAction
from siltstone.offline.transactions import Outcomes
from siltstone.record_columns.batches import Batches, BlockPlace
from siltstone.record_columns.kernels import columns, plain
from support.maintenance.compacted_stream import DAY_MS, CompactedStream

RECORDS = 3
"""Of each batch: the batches begin at 0, 3, 6 …"""


def batches_of(counts: list[int]) -> Batches:
    """Each takes three offsets, whatever it still holds."""
    rows = np.zeros((len(counts), columns.BATCH_COLUMNS), dtype=np.int64)
    rows[:, columns.BASE_OFFSET] = np.arange(len(counts)) * RECORDS
    rows[:, columns.END_OFFSET] = rows[:, columns.BASE_OFFSET] + RECORDS
    rows[:, columns.RECORD_COUNT] = counts
    rows[:, columns.PRODUCER_ID] = -1
    return Batches(np.zeros(0, dtype=np.uint8), rows, BlockPlace(0, 0))


def actions(
    kept_counts: list[int],
    *,
    counts: list[int] | None = None,
    last_batch: int = 1_000,
    of_producers: frozenset[int] = frozenset(),
    mapped_bound: int = 1_000,
    start_offset: int = 0,
    gets_horizon: tuple[int, ...] = (),
) -> list[RecordAction]:
    batches = batches_of([RECORDS] * len(kept_counts) if counts is None else counts)
    learned = Learned(KeyMap(1_000, 10, plain), 0, mapped_bound, False, Outcomes(), of_producers, last_batch)
    opened = np.ones(len(kept_counts), dtype=np.bool_)
    with_horizon = np.isin(np.arange(len(kept_counts)), gets_horizon)
    verdict = RecordVerdict(np.array(kept_counts, dtype=np.int64), opened, with_horizon)
    found = Judge(learned, start_offset, now_ms=0).actions(batches, verdict)
    return [RecordAction(each) for each in found.tolist()]


def test_a_batch_is_copied_whole_rebuilt_from_what_stays_or_dropped() -> None:
    assert actions([3, 2, 0]) == [RecordAction.COPY, RecordAction.REBUILD, RecordAction.DROP]


def test_a_whole_batch_that_gets_a_time_limit_is_rebuilt() -> None:
    assert actions([3, 3], gets_horizon=(1,)) == [RecordAction.COPY, RecordAction.REBUILD]


@pytest.mark.parametrize("start_offset", [0, 4, 6], ids=["untrimmed", "cut by the start", "trimmed"])
def test_g17_the_last_batch_of_the_stream_is_emptied_and_not_dropped(start_offset: int) -> None:
    """Its end offset is where the stream ends."""
    assert actions([0, 0], last_batch=3, start_offset=start_offset) == [RecordAction.DROP, RecordAction.EMPTY]


def test_g26_the_last_batch_of_a_producer_is_emptied_and_not_dropped() -> None:
    """Its header holds the producer's epoch and sequence."""
    found = actions([0, 0, 0, 0], of_producers=frozenset({3, 9}))
    assert found == [RecordAction.DROP, RecordAction.EMPTY, RecordAction.DROP, RecordAction.EMPTY]


def test_the_last_batch_of_a_producer_goes_once_it_lies_below_the_start_offset() -> None:
    assert actions([0, 0], of_producers=frozenset({0, 3}), start_offset=3) == [
        RecordAction.DROP,
        RecordAction.EMPTY,
    ]


def test_an_emptied_batch_is_copied_as_long_as_it_is_the_last_and_dropped_later() -> None:
    assert actions([0, 0], counts=[0, 0], last_batch=3) == [RecordAction.DROP, RecordAction.COPY]


@pytest.mark.parametrize(
    ("mapped_bound", "action"), [(2, RecordAction.COPY), (3, RecordAction.COPY), (4, RecordAction.DROP)]
)
def test_an_empty_batch_from_the_mapped_bound_on_stays(mapped_bound: int, action: RecordAction) -> None:
    assert actions([3, 0], counts=[3, 0], mapped_bound=mapped_bound) == [RecordAction.COPY, action]


# -- what becomes of records and markers, judged in a whole pass --------------------------------------------------


def horizons(stream: CompactedStream) -> list[bool]:
    return [header.has_delete_horizon for header in stream.headers()]


def test_transactions_and_tombstones_go_step_by_step() -> None:
    stream = CompactedStream()
    stream.add(("a", "1"), ("b", "1"))
    stream.add_transactional(4, ("c", "9"))
    stream.end_transaction(4, Outcome.ABORT)
    stream.add_transactional(5, ("a", "2"))
    stream.end_transaction(5, Outcome.COMMIT)
    for pairs in ([("a", None)], [(None, "x"), ("d", "1")], [("z", "1")]):
        stream.add(*pairs)
    result = stream.compact()
    emptied = ["1:b=1", "2-2:empty", "3:ABORT", "4-4:empty", "5:COMMIT", "6:a=T", "8:d=1", "9:z=1"]
    assert stream.said() == emptied, "the last batches of producers that are active stay, emptied"
    assert horizons(stream) == [said == "6:a=T" for said in emptied]
    assert (result.tombstones_kept, result.null_keys) == (1, 1)
    result = stream.compact(DAY_MS)
    assert stream.said() == ["1:b=1", "3:ABORT", "5:COMMIT", "8:d=1", "9:z=1"], "the tombstone's time is over"
    assert (result.tombstones_kept, result.null_keys, any(horizons(stream))) == (0, 0, False)
    stream.add(("y", "1"))
    stream.compact(3 * DAY_MS)
    assert stream.said() == ["1:b=1", "3:ABORT", "5:COMMIT", "8:d=1", "9:z=1", "10:y=1"]
    assert horizons(stream) == [False, True, True, False, False, False], (
        "of their transactions no batch is left"
    )
    stream.compact(4 * DAY_MS - 1)
    assert "3:ABORT" in stream.said()
    stream.compact(4 * DAY_MS)
    assert stream.said() == ["1:b=1", "8:d=1", "9:z=1", "10:y=1"]


@pytest.mark.parametrize(
    ("start_offset", "bound", "said", "null_keys", "has_horizon"),
    [
        (1, 5, ["2:a=2", "3:b=T", "5:a=3", "6:a=4"], 1, True),
        (0, 3, ["1:b=1", "2:a=2", "3:b=T", "4:-=n", "5:a=3", "6:a=4"], 0, False),
        (5, 7, ["6:a=4"], 0, False),
    ],
)
def test_records_below_the_start_go_and_those_from_the_bound_on_stay(
    start_offset: int, bound: int, said: list[str], null_keys: int, has_horizon: bool
) -> None:
    stream = CompactedStream()
    stream.add(("a", "1"), ("b", "1"), ("a", "2"), ("b", None))
    stream.add((None, "n"), ("a", "3"))
    stream.add(("a", "4"))
    stream.start_offset = start_offset
    result = stream.compact(bound=bound)
    assert [one for one in stream.said() if "empty" not in one] == said
    assert (result.null_keys, horizons(stream)[0]) == (null_keys, has_horizon)


def test_a_marker_is_alone_when_no_batch_came_before_it() -> None:
    seen = TransactionsSeen()
    seen.batch(1)
    assert seen.marker_is_alone(2)
    assert not seen.marker_is_alone(1)
    assert seen.marker_is_alone(1)


@pytest.mark.parametrize(
    ("outcome", "end", "may_go"),
    [
        (Outcome.COMMIT, None, True),
        (Outcome.ABORT, None, True),
        (Outcome.COMMIT, 4, True),
        (Outcome.COMMIT, 3, False),
        (Outcome.ABORT, 4, False),
    ],
)
def test_tp47_a_marker_that_a_reader_needs_stays(outcome: Outcome, end: int | None, may_go: bool) -> None:
    """A reader begins at a snapshot, which knows what lies below its offset; a client waits for markers of aborts."""
    marker = TransactionMarker(outcome, 0)
    payload = build_control_batch(marker, producer_id=1, producer_epoch=0, timestamp_ms=5, base_offset=3)
    batches: Any = SimpleNamespace(end_offsets=[4], payload=lambda row: memoryview(payload))
    learned = Learned(KeyMap(1_000, 10, plain), 0, 1_000, False, Outcomes(), frozenset(), 1_000)
    assert Judge(learned, 0, 0, end)._may_go(batches, 0) is may_go
