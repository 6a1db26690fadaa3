"""Erasures: requests to remove all records of some keys from a topic, kept in the metadata.

    key      erasure/<erasure id>
    value    a msgpack array, ``Erasure``

The keys themselves are never kept: an entry has two digests of each key. The first is the 128-bit SipHash under the
erasure's ``hash_key``, by which tasks find records quickly. The second is the HMAC-SHA-256 under the ``salt``, which
reports show. Somebody who can guess the key can confirm the guess by either, so the list is as confidential as the
keys are guessable.

An erasure concerns the records below a bound in each partition, the committed end at the request. It is *pending* until
a look at every object of the topic has found none of its records. Afterwards it stays in the metadata, because a store
that is restored from an older backup has to apply it again.

    key      erased-object/<erasure id>/<object id>
    value    a msgpack array, ``ErasedObject``: an object that held records of the keys, noted before it was replaced

    key      erased-rows/<erasure id>
    value    a msgpack array, ``ErasedRows``: what has become of the rows in the topic's table and its dead letters
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from siltstone.metadata.commands import PutKey
from siltstone.metadata.image import ImageView
from siltstone.model.errors import CorruptData, InvalidRequest
from siltstone.model.limits import ERASED_KEYS_MAX, ERASURES_BYTES_MAX

ERASURE_VERSION = 1
ERASURE_PREFIX = "erasure/"
ERASED_OBJECT_PREFIX = "erased-object/"
ERASED_ROWS_PREFIX = "erased-rows/"

LIST_PREFIX = "erasures/"
"""Keys of a bucket: the store's erasures once more, where a restore from an older backup finds them."""


class UnreadableErasure(CorruptData):
    """An erasure is damaged, or a newer version wrote it. Nothing is erased, and nothing counts as erased."""


class TooManyErasures(InvalidRequest):
    """One request has too many keys, or all requests together would take too much of the metadata."""


class ErasedKey(msgspec.Struct, frozen=True, array_like=True):
    """The digests of a key: 16 bytes and 32 bytes."""

    hash: bytes
    digest: bytes


class ErasureVerification(msgspec.Struct, frozen=True, array_like=True):
    """The look that found no record of the keys: when, and how much of the topic was read. Objects below
    ``next_object_id`` that are not in use may hold records of the keys until they are deleted: they were replaced
    before, or written and never committed. 0: not known."""

    verified_ms: int
    objects: int
    records: int
    bytes_read: int
    next_object_id: int = 0


class Erasure(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """``bounds`` has the bound of each partition, by number. ``verification`` is None while the erasure is pending.
    ``flushed_ms``: when all nodes had dropped what they kept in logs and memory, 0 before. ``cleared_ms``: when no
    bucket had an object any more that is not in use and may hold records of the keys, 0 before; until then
    ``leftovers`` is the number of these objects at the last look. ``has_table``: rows of the keys have to leave the
    topic's table, after its records have left the topic; ``leaves_tables``: a person has said that they stay."""

    version: int = ERASURE_VERSION
    erasure_id: str
    topic_id: str
    topic: str
    hash_key: bytes
    salt: bytes
    keys: tuple[ErasedKey, ...]
    bounds: tuple[int, ...]
    requested_ms: int
    verification: ErasureVerification | None = None
    flushed_ms: int = 0
    cleared_ms: int = 0
    leftovers: int = 0
    has_table: bool = False
    leaves_tables: bool = False

    @property
    def is_pending(self) -> bool:
        return self.verification is None


class ErasedObject(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """An object that held ``records`` records of the keys, and the buckets in which it was. ``replaced_ms`` and
    ``deleted_ms`` are 0 until it was seen that other objects had taken its place, and that no bucket had it any
    more."""

    object_id: int
    partition: int
    size_bytes: int
    records: int
    bucket_ids: tuple[int, ...]
    found_ms: int
    replaced_ms: int = 0
    deleted_ms: int = 0


class ErasedRows(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """``rows`` rows of the keys were found in ``files`` files of the table and of its dead letters. ``other_files``
    names the files among these that another program wrote: table and path.

    ``verified_ms``: when a look had found none, and a commit of the job ``job_id`` had shut out late exports;
    ``states`` names that commit in each table, as its ledger does. ``deleted_ms``: when older states and their files
    were gone. ``held_by`` names states that a person has named, which stay."""

    table: str
    files: int = 0
    rows: int = 0
    other_files: tuple[tuple[str, str], ...] = ()
    verified_ms: int = 0
    job_id: int = 0
    states: dict[str, int] = {}
    deleted_ms: int = 0
    held_by: tuple[str, ...] = ()


class StreamErasure(msgspec.Struct, frozen=True, array_like=True):
    """What a task has to know of an erasure: records of these keys below ``bound`` leave the stream."""

    erasure_id: str
    hash_key: bytes
    hashes: tuple[bytes, ...]
    bound: int


def encode_erasure(erasure: Erasure) -> bytes:
    return msgspec.msgpack.encode(erasure)


def decode_erasure(value: bytes) -> Erasure:
    """Raises UnreadableErasure."""
    try:
        found = msgspec.msgpack.decode(value, type=Erasure)
    except msgspec.MsgspecError as damage:
        raise UnreadableErasure(
            f"an erasure in the metadata cannot be read: {damage}; use the newest program that this store has seen"
        ) from damage
    if found.version != ERASURE_VERSION:
        raise UnreadableErasure(
            f"an erasure has version {found.version}; this program reads {ERASURE_VERSION}: use a newer one"
        )
    return found


def erasures_of(image: ImageView) -> list[Erasure]:
    """Returns all erasures, the oldest first. Raises UnreadableErasure."""
    found = [decode_erasure(value) for key, value in image.keys.items() if key.startswith(ERASURE_PREFIX)]
    return sorted(found, key=lambda each: (each.requested_ms, each.erasure_id))


def erasure_of(image: ImageView, erasure_id: str) -> Erasure | None:
    value = image.keys.get(f"{ERASURE_PREFIX}{erasure_id}")
    return None if value is None else decode_erasure(value)


def has_pending(image: ImageView) -> bool:
    return any(each.is_pending for each in erasures_of(image))


def erasures_of_streams(image: ImageView) -> dict[int, tuple[StreamErasure, ...]]:
    """Returns the pending erasures by data stream. Those of topics that were deleted concern no stream."""
    found: defaultdict[int, list[StreamErasure]] = defaultdict(list)
    for erasure in erasures_of(image):
        topic = image.topics.get(erasure.topic_id)
        if not erasure.is_pending or topic is None:
            continue
        hashes = tuple(each.hash for each in erasure.keys)
        for partition, bound in zip(topic.partitions, erasure.bounds, strict=False):
            if bound:
                of_stream = StreamErasure(erasure.erasure_id, erasure.hash_key, hashes, bound)
                found[partition.data_stream_id].append(of_stream)
    return {stream_id: tuple(each) for stream_id, each in found.items()}


def put_erasure(image: ImageView, erasure: Erasure) -> PutKey:
    """Returns the command that keeps the erasure. Raises TooManyErasures."""
    value = encode_erasure(erasure)
    if len(erasure.keys) > ERASED_KEYS_MAX:
        raise TooManyErasures(
            f"one erasure takes at most {ERASED_KEYS_MAX:,} keys, and {len(erasure.keys):,} were given: ask in parts"
        )
    key = f"{ERASURE_PREFIX}{erasure.erasure_id}"
    others = sum(
        len(each) for name, each in image.keys.items() if name.startswith(ERASURE_PREFIX) and name != key
    )
    if others + len(value) > ERASURES_BYTES_MAX:
        raise TooManyErasures(
            f"the erasures of this store would take {(others + len(value)) / 2**20:.1f} MiB of its metadata, and"
            f" {ERASURES_BYTES_MAX // 2**20} are the most: forget the oldest, whose backups are gone, by siltstone"
            " erasures forget"
        )
    return PutKey(key, value, overwrite=True)


def put_erased_object(erasure_id: str, erased: ErasedObject) -> PutKey:
    key = f"{ERASED_OBJECT_PREFIX}{erasure_id}/{erased.object_id:020d}"
    return PutKey(key, msgspec.msgpack.encode(erased), overwrite=True)


def erased_objects(image: ImageView, erasure_id: str) -> list[ErasedObject]:
    """Returns the objects that held records of an erasure, by id."""
    prefix = f"{ERASED_OBJECT_PREFIX}{erasure_id}/"
    names = sorted(key for key in image.keys if key.startswith(prefix))
    return [msgspec.msgpack.decode(image.keys[name], type=ErasedObject) for name in names]


def put_erased_rows(erasure_id: str, rows: ErasedRows) -> PutKey:
    return PutKey(f"{ERASED_ROWS_PREFIX}{erasure_id}", msgspec.msgpack.encode(rows), overwrite=True)


def erased_rows(image: ImageView, erasure_id: str) -> ErasedRows | None:
    value = image.keys.get(f"{ERASED_ROWS_PREFIX}{erasure_id}")
    return None if value is None else msgspec.msgpack.decode(value, type=ErasedRows)


def is_table_pending(image: ImageView, erasure: Erasure) -> bool:
    """Returns whether the records have left the topic, and rows may be left in its table."""
    rows = erased_rows(image, erasure.erasure_id)
    return erasure.has_table and not erasure.is_pending and (rows is None or not rows.verified_ms)


def is_open(image: ImageView, erasure: Erasure) -> bool:
    """Returns whether records, or rows, of the keys may be left."""
    return erasure.is_pending or is_table_pending(image, erasure)


def is_deletion_due(image: ImageView, erasure: Erasure, now_ms: int, grace_period_ms: int) -> bool:
    """Returns whether the older states of the table are to be dropped, since readers have had the grace period."""
    rows = erased_rows(image, erasure.erasure_id)
    return rows is not None and 0 < rows.verified_ms <= now_ms - grace_period_ms and not rows.deleted_ms


def keys_of(image: ImageView, erasure_id: str) -> Iterator[str]:
    """Yields the metadata keys that belong to an erasure."""
    if f"{ERASURE_PREFIX}{erasure_id}" in image.keys:
        yield f"{ERASURE_PREFIX}{erasure_id}"
    if f"{ERASED_ROWS_PREFIX}{erasure_id}" in image.keys:
        yield f"{ERASED_ROWS_PREFIX}{erasure_id}"
    yield from (key for key in image.keys if key.startswith(f"{ERASED_OBJECT_PREFIX}{erasure_id}/"))


def list_key(erasure_id: str) -> str:
    """Returns the key under which a bucket has the erasure, too."""
    return f"{LIST_PREFIX}{erasure_id}"


def erasure_id_of_key(key: str) -> str | None:
    """Returns the id of the erasure that a bucket has under this key; None if the key is of something else."""
    found = key.removeprefix(LIST_PREFIX)
    return found if found != key and found.isalnum() else None


def applied_again(erasures: Sequence[Erasure], ends: Mapping[str, Sequence[int]]) -> Iterator[Erasure]:
    """Yields the erasures as a restored store has to apply them. ``ends``: the end offset of each partition there, by
    topic id. A bound is never above the end, because offsets after it will be given to other records. No node of the
    restored store has a log yet, so none has to be flushed; and the tables belong to the original."""
    for erasure in erasures:
        if erasure.topic_id in ends:
            bounds = tuple(map(min, erasure.bounds, ends[erasure.topic_id]))
            yield msgspec.structs.replace(
                erasure,
                bounds=bounds,
                verification=None,
                flushed_ms=erasure.flushed_ms or erasure.requested_ms,
                cleared_ms=0,
                leftovers=0,
                has_table=False,
                leaves_tables=True,
            )
