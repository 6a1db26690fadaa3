"""Marks in a bucket that tell how new the metadata is that wrote to it, so that an older copy is recognised (rule 11).

A mark is the object ``siltstone-metadata/<version>-<end of ids>``, both with 20 digits, and its content is that of the
bucket's marker. It says that the bucket has been written to with the metadata at that version, and that object ids
below that end may be in use. Marks are compared by their key alone, so one listing reads them all. A mark is added
before object ids beyond the newest one are used, and after decisions that destroy objects. The process that adds a
mark deletes the marks that the new one surpasses. No object has to be replaced for that, and several processes may add
marks at the same time.

Ids are marked in steps, ahead of their use. Metadata whose version and ids are within the newest mark may therefore
still lack the last objects: so the bucket is asked for each object id from the metadata's next one to the end of the
mark. Read ``docs/decisions/0010-older-metadata.md`` for what this detects, and what it cannot.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from siltstone.model.errors import InvalidRequest
from siltstone.model.objects import object_key
from siltstone.object_formats.identity import StoreIdentity, encode_store_identity
from siltstone.object_store.port import ObjectNotFound, ObjectStore

MARKS_PREFIX = "siltstone-metadata/"
ID_STEP = 32
"""Object ids are marked this many ahead of their use, so most uploads add no mark."""

_KEY = re.compile(re.escape(MARKS_PREFIX) + r"(\d{20})-(\d{20})")


class MetadataOlderThanBucket(InvalidRequest):
    """The bucket has been written to with newer metadata than this: nothing may be written or deleted."""


class MetadataMark(NamedTuple):
    """A state of the metadata: its version, and the end of the object ids that it has given out, or may soon."""

    version: int
    ids_end: int


NOTHING_SEEN = MetadataMark(0, 0)


def key_of_mark(mark: MetadataMark) -> str:
    return f"{MARKS_PREFIX}{mark.version:020d}-{mark.ids_end:020d}"


def mark_of_key(key: str) -> MetadataMark | None:
    """The mark that has this key; None for every other key."""
    match = _KEY.fullmatch(key)
    return match and MetadataMark(int(match[1]), int(match[2]))


def marks_in(store: ObjectStore) -> list[MetadataMark]:
    """All marks of the bucket, by one listing. Raises what the store raises."""
    found = (mark_of_key(summary.key) for summary in store.list(MARKS_PREFIX))
    return [mark for mark in found if mark is not None]


def newest_of(marks: list[MetadataMark]) -> MetadataMark:
    """The highest version and the highest end of ids of any mark. Pure."""
    return MetadataMark(
        max((mark.version for mark in marks), default=0), max((mark.ids_end for mark in marks), default=0)
    )


class BucketGuard:
    """Guards one bucket for one process: ``admit`` before anything is written or deleted, ``cover`` before object ids
    are used, ``note`` after objects were destroyed. Threads may share it.

    ``newest`` reads the metadata to its head and returns its version and its next object id.
    """

    def __init__(self, store: ObjectStore, store_id: str, newest: Callable[[], MetadataMark]) -> None:
        self._store = store
        self._content = [encode_store_identity(StoreIdentity(store_id))]
        self._newest = newest
        self._admitted = NOTHING_SEEN
        self._covered = 0
        self.is_admitted = False
        """Whether the bucket has admitted the metadata since this process began."""

    def admit(self) -> None:
        """Raises MetadataOlderThanBucket if the metadata is an older copy, and what the store and ``newest`` raise.
        The first call looks for the objects that a mark allows and the metadata lacks; later calls cost a listing."""
        seen = newest_of(marks_in(self._store))
        now = self._newest()
        if now.version < seen.version or now.version < self._admitted.version:
            newest = max(seen.version, self._admitted.version)
            raise self._older(f"was written to with version {newest} of this store's metadata", now)
        if not self.is_admitted:
            self._refuse_objects(now.ids_end, seen.ids_end)
        self.is_admitted, self._admitted = True, now

    def _refuse_objects(self, next_id: int, ids_end: int) -> None:
        """Raises MetadataOlderThanBucket if the bucket holds an object whose id the metadata has not given out yet.
        Another process may have done that meanwhile, so the metadata is read again."""
        for object_id in range(next_id, max(ids_end, next_id + 1)):
            if self._exists(object_key(object_id)):
                now = self._newest()
                if object_id >= now.ids_end:
                    raise self._older(
                        f"holds object {object_id}, whose id this metadata has not given out", now
                    )
                return

    def _exists(self, key: str) -> bool:
        try:
            self._store.head(key)
        except ObjectNotFound:
            return False
        return True

    def _older(self, evidence: str, now: MetadataMark) -> MetadataOlderThanBucket:
        return MetadataOlderThanBucket(
            f"{self._store.url} {evidence}; this copy is at version {now.version}, its next object is {now.ids_end}. "
            "It is an older copy, so nothing is written or deleted. Restore the newest copy of the metadata"
        )

    def _admit_once(self) -> None:
        """A node that started while its bucket was out of reach has not been admitted yet."""
        if not self.is_admitted:
            self.admit()

    def cover(self, first_id: int, count: int, version: int) -> None:
        """Makes sure that a mark allows the ids [first_id, first_id + count), which the metadata at ``version`` has
        given out. Adds a mark only when none does yet. Raises as ``admit``."""
        self._admit_once()
        if first_id + count > self._covered:
            self._add(MetadataMark(version, first_id + count + ID_STEP))

    def note(self, version: int, next_id: int) -> None:
        """Adds a mark of exactly this state: after objects were destroyed, and at the end of a process. Raises as
        ``admit``."""
        self._admit_once()
        self._add(MetadataMark(version, next_id))

    def _add(self, mark: MetadataMark) -> None:
        self._store.put(key_of_mark(mark), self._content)
        self._covered = mark.ids_end
        surpassed = [
            each for each in marks_in(self._store)
            if each != mark and each.version <= mark.version and each.ids_end <= mark.ids_end
        ]  # fmt: skip
        if surpassed:
            self._store.delete([key_of_mark(each) for each in surpassed])
