import random

import pytest

from siltstone.kafka_protocol.records.control import Outcome
from siltstone.object_formats.partition_snapshot import AbortedTransaction, pack_aborted, unpack_aborted
from siltstone.offline.transactions import AbortedTransactions, Outcomes

A, B, C = AbortedTransaction(1, 4, 9), AbortedTransaction(2, 6, 12), AbortedTransaction(3, 2, 20)


def all_of() -> AbortedTransactions:
    return AbortedTransactions([A, B, C])


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        (0, 21, [C, A, B]),
        (0, 2, []),
        (0, 3, [C]),
        (0, 5, [C, A]),
        (10, 21, [C, B]),
        (13, 14, [C]),
        (21, 30, []),
    ],
)
def test_those_that_a_fetch_touches_in_the_order_of_their_first_offsets(start, end, found):
    assert all_of().between(start, end) == found


def test_tp8_a_fetch_from_the_marker_on_gets_its_transaction_and_one_behind_it_not():
    assert A in all_of().between(9, 21)
    assert A not in all_of().between(10, 21)


def test_tp25_an_entry_leaves_when_the_start_of_the_log_passes_its_marker():
    aborted = all_of()
    aborted.trim(6)
    assert [*aborted] == [A, B, C]
    aborted.trim(9)
    assert [*aborted] == [A, B, C]
    aborted.trim(10)
    assert [*aborted] == [B, C]
    assert aborted.between(0, 21) == [C, B]
    aborted.trim(21)
    assert [*aborted] == [] and aborted.between(0, 99) == []


def test_they_are_packed_as_triples_of_64_bits():
    packed = pack_aborted([A, C])
    assert packed.hex() == "".join(number.to_bytes(8, "little").hex() for number in (1, 4, 9, 3, 2, 20))
    assert unpack_aborted(packed) == [A, C]
    with pytest.raises(ValueError, match="47 bytes"):
        unpack_aborted(packed[:-1])


@pytest.mark.parametrize("seed", range(20))
def test_a_lookup_is_that_of_a_plain_walk(seed):
    """Added one by one; the first half loaded at once, the others added."""
    rng = random.Random(seed)
    open_from: dict[int, int] = {}
    added, plain, offset = AbortedTransactions(), [], 0
    for _ in range(60):
        pid = rng.randrange(4)
        if pid in open_from:
            plain.append(AbortedTransaction(pid, open_from.pop(pid), offset))
            added.add(plain[-1], min(open_from.values(), default=offset + 1))
        else:
            open_from[pid] = offset
        offset += rng.randrange(1, 5)
    half = len(plain) // 2
    open_then = [one.first_offset for one in plain[half:] if one.first_offset < plain[half - 1].marker_offset]
    loaded = AbortedTransactions(plain[:half], min(open_then, default=None))
    for index, one in enumerate(plain[half:], half):
        still_open = [
            each.first_offset for each in plain[index + 1 :] if each.first_offset < one.marker_offset
        ]
        loaded.add(one, min(still_open, default=one.marker_offset + 1))
    for _ in range(40):
        start = rng.randrange(offset)
        end = start + rng.randrange(1, 30)
        touched = [one for one in plain if one.marker_offset >= start and one.first_offset < end]
        expected = sorted(touched, key=lambda one: one.first_offset)
        assert added.between(start, end) == loaded.between(start, end) == expected


def test_a_lookup_in_old_records_does_not_walk_to_the_end():
    many = AbortedTransactions()
    for index in range(1_000):
        many.add(AbortedTransaction(1, 10 * index, 10 * index + 5), 10 * index + 6)
    looked_at = []
    many._entries = CountingList(many._entries, looked_at)  # type: ignore[assignment]
    assert len(many.between(100, 120)) == 2
    assert len(looked_at) < 10


class CountingList(list[AbortedTransaction]):
    def __init__(self, entries, looked_at):
        super().__init__(entries)
        self._looked_at = looked_at

    def __getitem__(self, index):
        self._looked_at.append(index)
        return super().__getitem__(index)


def test_the_first_marker_after_it_decides_a_batch() -> None:
    outcomes = Outcomes()
    outcomes.batch(1, 10)
    outcomes.batch(2, 11)
    outcomes.batch(1, 12)
    outcomes.marker(1, 13, Outcome.ABORT)
    outcomes.batch(1, 14)
    outcomes.marker(2, 15, Outcome.COMMIT)
    outcomes.marker(1, 16, Outcome.COMMIT)
    outcomes.batch(1, 17)
    outcomes.marker(1, 18, Outcome.ABORT)
    assert [offset for offset in (10, 12, 14, 17) if outcomes.is_aborted(1, offset)] == [10, 12, 17]
    assert not outcomes.is_aborted(2, 11)
    assert not outcomes.is_aborted(3, 11)


def test_the_first_that_is_undecided() -> None:
    outcomes = Outcomes()
    assert outcomes.first_undecided is None
    outcomes.batch(1, 10)
    outcomes.batch(2, 11)
    assert outcomes.first_undecided == 10
    outcomes.marker(1, 12, Outcome.COMMIT)
    assert outcomes.first_undecided == 11
    outcomes.marker(2, 13, Outcome.ABORT)
    assert outcomes.first_undecided is None


def test_a_marker_without_a_transaction_changes_nothing() -> None:
    outcomes = Outcomes()
    outcomes.marker(1, 5, Outcome.ABORT)
    outcomes.batch(1, 6)
    assert not outcomes.is_aborted(1, 6)
    outcomes.marker(1, 7, Outcome.ABORT)
    assert outcomes.is_aborted(1, 6)
    outcomes.batch(1, 8)
    assert outcomes.first_undecided == 8
