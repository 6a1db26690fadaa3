"""What becomes of a batch, once it is known how many of its records stay."""

import numpy as np
import pytest

from siltstone.maintenance.key_compaction.kernels import columns, plain
from siltstone.maintenance.key_compaction.passes.batches import Batches, BlockPlace
from siltstone.maintenance.key_compaction.passes.first_scan import Learned
from siltstone.maintenance.key_compaction.passes.judging import Action, Judge, Verdict
from siltstone.maintenance.key_compaction.passes.key_map import KeyMap
from siltstone.maintenance.key_compaction.passes.transactions import Outcomes

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
) -> list[Action]:
    batches = batches_of([RECORDS] * len(kept_counts) if counts is None else counts)
    learned = Learned(KeyMap(1_000, 10, plain), 0, mapped_bound, False, Outcomes(), of_producers, last_batch)
    opened = np.ones(len(kept_counts), dtype=np.bool_)
    with_horizon = np.isin(np.arange(len(kept_counts)), gets_horizon)
    verdict = Verdict(np.array(kept_counts, dtype=np.int64), opened, with_horizon)
    found = Judge(learned, start_offset, now_ms=0).actions(batches, verdict)
    return [Action(each) for each in found.tolist()]


def test_a_batch_is_copied_whole_rebuilt_from_what_stays_or_dropped() -> None:
    assert actions([3, 2, 0]) == [Action.COPY, Action.REBUILD, Action.DROP]


def test_a_whole_batch_that_gets_a_time_limit_is_rebuilt() -> None:
    assert actions([3, 3], gets_horizon=(1,)) == [Action.COPY, Action.REBUILD]


@pytest.mark.parametrize("start_offset", [0, 4, 6], ids=["untrimmed", "cut by the start", "trimmed"])
def test_g17_the_last_batch_of_the_stream_is_emptied_and_not_dropped(start_offset: int) -> None:
    """Its end offset is where the stream ends."""
    assert actions([0, 0], last_batch=3, start_offset=start_offset) == [Action.DROP, Action.EMPTY]


def test_g26_the_last_batch_of_a_producer_is_emptied_and_not_dropped() -> None:
    """Its header holds the producer's epoch and sequence."""
    found = actions([0, 0, 0, 0], of_producers=frozenset({3, 9}))
    assert found == [Action.DROP, Action.EMPTY, Action.DROP, Action.EMPTY]


def test_the_last_batch_of_a_producer_goes_once_it_lies_below_the_start_offset() -> None:
    assert actions([0, 0], of_producers=frozenset({0, 3}), start_offset=3) == [Action.DROP, Action.EMPTY]


def test_an_emptied_batch_is_copied_as_long_as_it_is_the_last_and_dropped_later() -> None:
    assert actions([0, 0], counts=[0, 0], last_batch=3) == [Action.DROP, Action.COPY]


@pytest.mark.parametrize(("mapped_bound", "action"), [(2, Action.COPY), (3, Action.COPY), (4, Action.DROP)])
def test_an_empty_batch_from_the_mapped_bound_on_stays(mapped_bound: int, action: Action) -> None:
    assert actions([3, 0], counts=[3, 0], mapped_bound=mapped_bound) == [Action.COPY, action]
