from itertools import pairwise
from random import Random

import pytest

from siltstone.stream_engine.tail.stream_tail import StreamTail, first_within
from support.engine.batches import batch


def tail_of(*ranges: tuple[int, int]) -> StreamTail:
    tail = StreamTail()
    for start, end in ranges:
        tail.put(batch(1, start, end - start))
    return tail


def found(tail: StreamTail, start: int, end: int) -> list[tuple[int, int]]:
    return [(one.base_offset, one.end_offset) for one in tail.suffix(start, end)]


GAP = ((10, 11), (11, 13), (13, 15), (20, 21), (21, 22))


@pytest.mark.parametrize(
    ("content", "query", "hit"),
    [
        (GAP, (10, 15), [(10, 11), (11, 13), (13, 15)]),
        (GAP, (10, 21), [(20, 21)]),
        (GAP, (0, 9), []),
        (GAP, (10, 16), []),
        (GAP, (12, 16), []),
        (((0, 10), (100, 200)), (0, 10), [(0, 10)]),
        (((0, 10), (100, 200)), (0, 11), []),
        (((0, 10), (100, 200)), (5, 20), []),
        (((0, 10), (100, 200)), (40, 50), []),
        (((0, 10), (100, 200)), (90, 110), [(100, 200)]),
    ],
)
def test_t18_log_cache_look_ups(content, query, hit):
    """Where the table's last row cuts [100, 110) out of a batch, ours gives the batch: batches are opaque."""
    assert found(tail_of(*content), *query) == hit


def test_a_batch_that_begins_before_the_start_or_ends_after_the_end_is_given_whole():
    tail = tail_of((10, 20), (20, 30), (30, 40))
    assert found(tail, 15, 25) == [(10, 20), (20, 30)]
    assert found(tail, 20, 21) == [(20, 30)]


def test_an_empty_tail_gives_nothing():
    assert found(StreamTail(), 0, 1) == []


def test_eviction_forgets_whole_batches_and_runs():
    tail = tail_of(*GAP)
    tail.evict_through(11)
    assert found(tail, 10, 15) == [(11, 13), (13, 15)]
    tail.evict_through(15)
    assert found(tail, 10, 15) == []
    assert found(tail, 10, 22) == [(20, 21), (21, 22)]
    tail.evict_through(22)
    assert len(tail) == 0
    tail.put(batch(1, 50, 5))
    assert found(tail, 50, 55) == [(50, 55)]


def test_a_batch_that_overlaps_what_is_cached_is_a_bug():
    tail = tail_of((10, 20))
    with pytest.raises(AssertionError):
        tail.put(batch(1, 15, 10))


@pytest.mark.parametrize("seed", range(20))
def test_look_ups_and_evictions_agree_with_a_slow_model(seed):
    rng = Random(seed)
    tail, model, at = StreamTail(), [], 0
    for _ in range(200):
        if rng.random() < 0.1:
            at += rng.randint(1, 5)
        size = rng.randint(1, 4)
        tail.put(batch(1, at, size))
        model.append((at, at + size))
        at += size
        if rng.random() < 0.2:
            cut = rng.choice(model)[1]
            tail.evict_through(cut)
            model = [one for one in model if one[1] > cut]
        start = rng.randint(0, at)
        end = rng.randint(start + 1, at + 3)
        assert found(tail, start, end) == slow_suffix(model, start, end)


def slow_window(model, start, end, bytes_max):
    """Batch by batch from the one that holds ``start``, with its bytes; None when there is a hole before ``end``."""
    covering = [one for one in model if one.end_offset > start and one.base_offset < end]
    if not covering or covering[0].base_offset > start or covering[-1].end_offset < end:
        return None
    if any(one.end_offset != other.base_offset for one, other in pairwise(covering)):
        return None
    return first_within(covering, bytes_max, at_least_one=True)


@pytest.mark.parametrize("seed", range(20))
def test_windows_agree_with_a_slow_model(seed):
    rng = Random(seed)
    tail, model, at, answered = StreamTail(), [], 0, 0
    for _ in range(200):
        if rng.random() < 0.02:
            at += rng.randint(1, 5)
        one = batch(1, at, rng.randint(1, 4), rng.choice([0, 1, 10, 100]))
        tail.put(one)
        model.append(one)
        at = one.end_offset
        if rng.random() < 0.1:
            cut = rng.choice(model[: len(model) // 2 + 1]).end_offset
            tail.evict_through(cut)
            model = [one for one in model if one.end_offset > cut]
        start = rng.randint(max(0, at - 40), at)
        end = rng.randint(start + 1, at + 3)
        bytes_max = rng.choice([0, 5, 100, 10_000])
        expected = slow_window(model, start, end, bytes_max)
        assert tail.window(start, end, bytes_max) == expected
        everything = slow_window(model, start, at, 10**9) if start < at else None
        assert tail.bytes_from(start) == (None if everything is None else sum(map(len, everything)))
        answered += expected is not None
    assert answered > 50


def test_an_empty_tail_has_no_windows():
    tail = tail_of((10, 20))
    tail.evict_through(20)
    assert (tail.window(10, 20, 100), tail.bytes_from(10)) == (None, None)


def slow_suffix(model, start, end):
    """Walks back from end - 1 while the offset before is cached too."""
    hit, wanted = [], end
    for one in reversed(model):
        if one[0] < wanted <= one[1] and wanted > start:
            hit.insert(0, one)
            wanted = one[0]
    return hit


@pytest.mark.parametrize(
    ("sizes", "bytes_max", "at_least_one", "taken"),
    [
        ((10, 10, 10), 25, False, 2),
        ((10, 10, 10), 30, False, 3),
        ((10,), 9, False, 0),
        ((10, 10), 9, True, 1),
        ((10, 10), 0, True, 1),
        ((), 100, True, 0),
    ],
)
def test_first_within(sizes, bytes_max, at_least_one, taken):
    batches = [batch(1, index, 1, size) for index, size in enumerate(sizes)]
    assert first_within(batches, bytes_max, at_least_one=at_least_one) == batches[:taken]
