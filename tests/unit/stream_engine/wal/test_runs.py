"""What is recovered, where a life is sealed, what may be deleted."""

from collections import deque

import pytest

from siltstone.object_formats.log_file import DamagedWal
from siltstone.object_formats.wal_object import SEAL_BYTES, WalObjectHeader, WalObjectKind
from siltstone.stream_engine.wal.runs import (
    LifeRun,
    deletable,
    first_free_seq,
    kept_place,
    kept_seq_of,
    possible_seals,
    refuse_acknowledged_gap,
    run_of_life,
    sealed_run,
)


def header(epoch: int, seq: int, kept: tuple[int, int], answered: int = 0) -> WalObjectHeader:
    return WalObjectHeader(
        WalObjectKind.BULK, "ab" * 16, 3, epoch, "cd" * 16, seq, 0, 0, *kept, answered
    )  # fmt: skip


@pytest.mark.parametrize(
    ("listed", "kept", "recovered"),
    [
        ([0, 1, 2], 0, [0, 1, 2]),
        ([], 0, []),
        ([0, 2], 0, [0]),
        ([0, 1, 2], 1, [1, 2]),
        ([0, 1, 2], 3, []),
        ([0, 1, 3], 1, [1]),
        ([1, 2], 1, [1, 2]),
    ],
)
def test_t20_what_follows_a_gap_was_never_acknowledged(listed: list, kept: int, recovered: list) -> None:
    run = run_of_life(7, listed, kept)
    assert run == LifeRun(7, tuple(recovered), kept + len(recovered))
    assert run.seal_seq == first_free_seq(listed, kept)
    assert run.seal_seq not in listed


def test_w20_w21_the_run_begins_at_what_is_kept_and_not_at_the_lowest_seq() -> None:
    """Deleting stopped half way (W20), or a second attempt of 3 landed after 3 was deleted (W21)."""
    assert run_of_life(1, [2, 4, 5], kept_seq_of(1, header(1, 5, (1, 5)))).seqs == (5,)
    assert run_of_life(1, [3, 7, 8], kept_seq_of(1, header(1, 8, (1, 6)))).seqs == ()
    assert run_of_life(1, [3, 6, 7, 8], kept_seq_of(1, header(1, 8, (1, 6)))).seqs == (6, 7, 8)


def test_w23_of_a_sealed_life_gaps_were_committed() -> None:
    assert sealed_run(1, [9, 3, 5, 12], 2, 10).seqs == (3, 5, 9)


def test_w21_the_run_of_a_sealed_life_begins_with_what_is_kept_and_ends_before_the_seal() -> None:
    assert sealed_run(1, [2, 3, 5, 10], 3, 10) == LifeRun(1, (3, 5), 10)


def test_a_later_life_may_keep_what_an_earlier_one_wrote() -> None:
    later = header(5, 3, (4, 17))
    assert kept_seq_of(4, later) == 17
    assert kept_seq_of(5, later) == 0


def test_a_seal_is_looked_for_among_the_objects_of_its_size() -> None:
    sizes = {0: 300, 1: SEAL_BYTES, 2: SEAL_BYTES, 3: 120, 4: SEAL_BYTES}
    assert possible_seals(sizes, 2) == [2, 4]


def test_an_object_that_was_acknowledged_and_is_missing_is_damage() -> None:
    run = run_of_life(1, [0, 1, 3], 0)
    refuse_acknowledged_gap(run, header(1, 3, (1, 0), answered=2), "key")
    with pytest.raises(DamagedWal, match="key is missing"):
        refuse_acknowledged_gap(run, header(1, 3, (1, 0), answered=3), "key")


def test_only_what_an_acknowledged_header_says_is_deleted() -> None:
    objects = deque([((1, 4), 10), ((1, 5), 20), ((2, 1), 30), ((2, 2), 30)])
    assert kept_place(objects, 9, (2, 3)) == (1, 4)
    assert kept_place(objects, 10, (2, 3)) == (1, 5)
    assert kept_place(objects, 25, (2, 3)) == (2, 1), "a trim inside an object keeps it"
    assert kept_place(objects, 30, (2, 3)) == (2, 3)
    assert [deletable(objects, kept) for kept in [(1, 4), (1, 5), (2, 1), (2, 3)]] == [0, 1, 2, 4]
