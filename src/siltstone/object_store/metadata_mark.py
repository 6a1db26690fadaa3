"""Marks in a bucket that tell how new the metadata is that wrote to it, so that an older copy is recognised (rule 11).

A mark is the object ``siltstone-metadata/<version>-<end of ids>-<append id>``, the first two with 20 digits, and its
content is that of the bucket's marker. It says that the bucket has been written to with the metadata at that version,
whose entry there has that append id, and that object ids below that end may be in use. Older marks end before the
append id. Marks are compared by their key alone, so one listing reads them all. A mark is added before object ids
beyond the newest one are used, and after decisions that destroy objects. The process that adds a mark deletes the marks
that the new one surpasses. No object has to be replaced for that, and several processes may add marks at the same time.

A metadata log that lost entries and continued with others has another append id at the version of a mark, so it is
refused even when it is longer than the log that the bucket has seen.

Ids are marked in steps, ahead of their use. Metadata whose version and ids are within the newest mark may therefore
still lack the last objects: so the bucket is asked for each object id from the metadata's next one to the end of the
mark. Read ``docs/decisions/0010-older-metadata.md`` for what this detects, and what it cannot.
"""

import re
from collections.abc import Callable
from typing import NamedTuple, Protocol

from siltstone.model.errors import InvalidRequest
from siltstone.model.objects import object_key
from siltstone.object_formats.identity import StoreIdentity, encode_store_identity
from siltstone.object_store.port import ObjectNotFound, ObjectStore

MARKS_PREFIX = "siltstone-metadata/"
NO_ID = ""
ID_STEP = 32
"""Object ids are marked this many ahead of their use, so most uploads add no mark."""

_KEY = re.compile(re.escape(MARKS_PREFIX) + r"(\d{20})-(\d{20})(?:-([0-9a-f]{32}))?")


class MetadataOlderThanBucket(InvalidRequest):
    """The bucket has been written to with newer metadata than this, or with metadata that continued in another way:
    nothing may be written or deleted."""


class MetadataMark(NamedTuple):
    """A state of the metadata: its version, the end of the object ids that it has given out, or may soon, and the
    append id of its entry at that version, 32 hex digits; NO_ID in marks of older programs."""

    version: int
    ids_end: int
    append_id: str = NO_ID


class MetadataState(Protocol):
    """What a mark is made of; an image of the metadata has it."""

    @property
    def version(self) -> int: ...
    @property
    def append_id(self) -> str: ...
    @property
    def next_object_id(self) -> int: ...


NOTHING_SEEN = MetadataMark(0, 0)


def mark_of_state(state: MetadataState) -> MetadataMark:
    """Returns the mark of exactly this state. The entry at its version may be older than the chain of entries, and then
    has no append id but zeros. Pure."""
    return MetadataMark(
        state.version, state.next_object_id, state.append_id if state.append_id.strip("0") else NO_ID
    )


def key_of_mark(mark: MetadataMark) -> str:
    return f"{MARKS_PREFIX}{mark.version:020d}-{mark.ids_end:020d}" + (
        mark.append_id and f"-{mark.append_id}"
    )


def mark_of_key(key: str) -> MetadataMark | None:
    """Returns the mark that has this key; None for every other key."""
    match = _KEY.fullmatch(key)
    return match and MetadataMark(int(match[1]), int(match[2]), match[3] or NO_ID)


def contradicts(mark: MetadataMark, append_id: str | None) -> bool:
    """Returns whether a metadata log continued in another way than the mark says. ``append_id``: that of the log's
    entry at the version of the mark, or None when the log does not have that entry any more. Pure."""
    return mark.append_id != NO_ID and append_id not in (None, mark.append_id)


def marks_in(store: ObjectStore) -> list[MetadataMark]:
    """Returns all marks of the bucket, by one listing. Raises what the store raises."""
    return [mark for mark, _ in dated_marks_in(store)]


def dated_marks_in(store: ObjectStore) -> list[tuple[MetadataMark, int]]:
    """Returns all marks of the bucket, each with the time at which it was written, in ms by the bucket's clock. Raises
    what the store raises."""
    listed = ((mark_of_key(each.key), each.modified_ms) for each in store.list(MARKS_PREFIX))
    return [(mark, modified_ms) for mark, modified_ms in listed if mark is not None]


def newest_of(marks: list[MetadataMark]) -> MetadataMark:
    """Returns the highest version and the highest end of ids of any mark, without an append id. Pure."""
    return MetadataMark(
        max((mark.version for mark in marks), default=0), max((mark.ids_end for mark in marks), default=0)
    )


class BucketGuard:
    """Guards one bucket for one process: ``admit`` before anything is written or deleted, ``cover`` before object ids
    are used, ``note`` after objects were destroyed. Threads may share it.

    ``newest`` reads the metadata to its head and returns the mark of its state; ``append_id_at`` reads the append id of
    the log's entry at a version, and returns None when the log does not have that entry any more.
    """

    def __init__(
        self,
        store: ObjectStore,
        store_id: str,
        newest: Callable[[], MetadataMark],
        append_id_at: Callable[[int], str | None],
    ) -> None:
        self._store = store
        self._content = [encode_store_identity(StoreIdentity(store_id))]
        self._newest = newest
        self._append_id_at = append_id_at
        self._compared: set[MetadataMark] = set()
        self._admitted = NOTHING_SEEN
        self._covered = 0
        self.is_admitted = False
        """Whether the bucket has admitted the metadata since this process began."""
        self.newest_mark_ms = 0
        """When the newest mark that this process has seen was written, by the bucket's clock; 0 before it saw one."""

    def _marks(self) -> list[MetadataMark]:
        """Returns all marks of the bucket, and remembers when the newest was written."""
        dated = dated_marks_in(self._store)
        self.newest_mark_ms = max((written_ms for _, written_ms in dated), default=self.newest_mark_ms)
        return [mark for mark, _ in dated]

    def admit(self) -> None:
        """Raises MetadataOlderThanBucket if the metadata is an older copy, and what the store and ``newest`` raise.
        The first call looks for the objects that a mark allows and the metadata lacks; later calls cost a listing."""
        marks = self._marks()
        seen, now = newest_of(marks), self._newest()
        if now.version < seen.version or now.version < self._admitted.version:
            newest = max(seen.version, self._admitted.version)
            raise self._older(f"was written to with version {newest} of this store's metadata", now)
        self._compare(marks)
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

    def _compare(self, marks: list[MetadataMark]) -> None:
        """Raises MetadataOlderThanBucket if the log has another entry than one of these marks. Each mark is compared
        once."""
        self._compared.intersection_update(marks)
        for mark in marks:
            if mark.append_id == NO_ID or mark in self._compared:
                continue
            found = self._append_id_at(mark.version)
            if contradicts(mark, found):
                raise MetadataOlderThanBucket(
                    f"{self._store.url} was written to with entry {mark.version} of the metadata log as append "
                    f"{mark.append_id}, and this log has append {found} there: the log lost entries and continued with "
                    "others, since an older copy was restored, or a standby without the newest entries was promoted. "
                    "Nothing is written or deleted. Stop every node, and restore the copy of the metadata in which "
                    f"entry {mark.version} has append id {mark.append_id}"
                )
            if found is not None:
                self._compared.add(mark)

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

    def cover(self, first_id: int, count: int, state: MetadataState) -> None:
        """Makes sure that a mark allows the ids [first_id, first_id + count), which the metadata has given out.
        ``state`` is what the process has read of the metadata. Adds a mark only when none does yet. Raises as
        ``admit``."""
        self._admit_once()
        if first_id + count > self._covered:
            self._add(mark_of_state(state)._replace(ids_end=first_id + count + ID_STEP))

    def note(self, state: MetadataState) -> None:
        """Adds a mark of exactly this state: after objects were destroyed, and at the end of a process. Raises as
        ``admit``."""
        self._admit_once()
        self._add(mark_of_state(state))

    def _add(self, mark: MetadataMark) -> None:
        """Compares all marks before it adds one and deletes the marks that it surpasses: a log that lost entries while
        this process had it open must not take away the marks that tell."""
        marks = self._marks()
        self._compare(marks)
        self._store.put(key_of_mark(mark), self._content)
        self._covered = mark.ids_end
        surpassed = [
            each for each in marks
            if each != mark and each.version <= mark.version and each.ids_end <= mark.ids_end
        ]  # fmt: skip
        if surpassed:
            self._store.delete([key_of_mark(each) for each in surpassed])
