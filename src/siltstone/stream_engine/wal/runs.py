"""The rules of a log in a bucket: which objects are recovered, where each life is sealed, and which objects may be
deleted. Pure.

A *life* is one node epoch. Its objects have the numbers (*seqs*) 0, 1, 2, …; several are put at a time, so they may
land in any order, but appends are acknowledged in their order. ``kept`` is the first (epoch, seq) whose records are not
all committed, as the header of an object says. Four rules follow, and ``tests/model`` breaks each of them:

* ``run_of_life``: a life without a seal is read from ``kept``, without gaps. Not from its lowest seq: deleting may have
  stopped half way, and a second attempt of a put may land after the first one's object was deleted.
* ``first_free_seq``: the seal is put at the first seq that is not listed, if there is still no object. From then on no
  object at that seq or above is ever acknowledged.
* ``sealed_run``: of a sealed life everything below the seal is read, gaps or not: what is missing was committed.
* ``deletable``: an object is deleted only when it is below the ``kept`` of an object that was acknowledged.
"""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from siltstone.object_formats.log_file import DamagedWal
from siltstone.object_formats.wal_object import SEAL_BYTES, WalObjectHeader

Place = tuple[int, int]
"""Node epoch and seq of an object: the order of the log."""


class LifeRun(msgspec.Struct, frozen=True):
    """The objects of one life that are recovered, in order. ``seal_seq``: where the life is sealed."""

    node_epoch: int
    seqs: tuple[int, ...]
    seal_seq: int


def kept_seq_of(node_epoch: int, header: WalObjectHeader) -> int:
    """Returns the first seq of a life that may hold records that are not committed, as a header says whose
    ``kept_epoch`` is not higher than the epoch of the life."""
    return header.kept_seq if header.kept_epoch == node_epoch else 0


def first_free_seq(listed: Collection[int], kept_seq: int) -> int:
    """Returns the end of the run without gaps that begins at ``kept_seq``: where the life is sealed."""
    seq = kept_seq
    while seq in listed:
        seq += 1
    return seq


def run_of_life(node_epoch: int, listed: Collection[int], kept_seq: int) -> LifeRun:
    """Returns the run of a life that has no seal yet."""
    end = first_free_seq(listed, kept_seq)
    return LifeRun(node_epoch, tuple(range(kept_seq, end)), end)


def sealed_run(node_epoch: int, listed: Iterable[int], kept_seq: int, seal_seq: int) -> LifeRun:
    """Returns the run of a life that is sealed at ``seal_seq``."""
    return LifeRun(node_epoch, tuple(sorted(seq for seq in listed if kept_seq <= seq < seal_seq)), seal_seq)


def possible_seals(sizes: dict[int, int], kept_seq: int) -> list[int]:
    """Returns the listed seqs, with their sizes, at which the seal may be. Only a seal has its size, and it is not
    below ``kept_seq``, because objects below were acknowledged."""
    return sorted(seq for seq, size_bytes in sizes.items() if size_bytes == SEAL_BYTES and seq >= kept_seq)


def refuse_acknowledged_gap(run: LifeRun, newest: WalObjectHeader, key: str) -> None:
    """Raises DamagedWal when an object is missing that the life had acknowledged before it put its newest one."""
    if newest.answered_seq > run.seal_seq:
        raise DamagedWal(
            f"{key} is missing, and the write-ahead log had acknowledged it: restore the object, from an earlier "
            "version of the bucket for instance"
        )


def deletable(places: Sequence[tuple[Place, int]], kept: Place) -> int:
    """Returns how many of the objects may be deleted: those below ``kept``, which is the ``kept`` of the newest
    acknowledged object. ``places`` are in order, each with the position of its end."""
    return next((index for index, (place, _) in enumerate(places) if place >= kept), len(places))


def kept_place(places: Iterable[tuple[Place, int]], trimmed_position: int, following: Place) -> Place:
    """Returns the place from which the log is kept, by the header of the object at ``following``: the oldest object
    that is not wholly trimmed."""
    return next((place for place, end in places if end > trimmed_position), following)
