"""Encodes a snapshot: an image as bytes, in chunks, so that no single value of the database grows with the image.

A chunk is a sealed frame (``log_entry``) with magic "SIMG". Its label is the chunk's number and the image's version, 8
bytes each, little endian. Its body is one part: the ``Contents`` in the first chunk, then rows of one table of the
image in each chunk, split by their weight. Rows are sorted by id, so equal images give equal bytes. The ranges of a
stream are not written, because they are the ranges of its objects; decoding restores them. Copies of objects are a
table of their own, so that a program without copies refuses a snapshot that has some.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from struct import Struct
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec.structs import astuple, replace

from siltstone.foundation.sharded_map import ShardedMap
from siltstone.metadata.entities import (
    NO_NODE,
    JobMetadata,
    NodeMetadata,
    ObjectMetadata,
    ScanPin,
    StoreLevel,
    StreamMetadata,
    TopicMetadata,
)
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.levels import refuse_unknown_level
from siltstone.metadata.log_entry import NO_APPEND_ID, seal, unseal
from siltstone.metadata.users import ScramUser
from siltstone.model.acls import AclBinding, Authorization
from siltstone.model.errors import CorruptData
from siltstone.model.objects import ObjectRange, ObjectState
from siltstone.model.quotas import ClientQuota

CHUNK_MAGIC = b"SIMG"
CHUNK_WEIGHT = 10_000
"""The most weight in one chunk, which keeps chunks below about a megabyte however the ranges are spread over objects.
A row weighs 1; so does each range of an object, each partition of a topic, and every 32 bytes of a value."""

_LABEL = Struct("<QQ")
K = TypeVar("K", int, str)
T = TypeVar("T")


class SnapshotIncomplete(CorruptData):
    """Chunks are missing, repeated or from another snapshot, or their rows do not match the first chunk."""


class SnapshotPartUnknown(CorruptData):
    """The chunk is undamaged, but this program cannot decode it: a newer version wrote it."""


class Contents(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The first part: the image's counters, the number of rows in all other parts, and the append id of the last entry,
    which is empty in snapshots that are older than the chain (``log_entry``)."""

    next_stream_id: int
    next_object_id: int
    next_job_id: int
    row_count: int
    append_id: bytes = b""


class Streams(msgspec.Struct, frozen=True, array_like=True, tag=2):
    rows: tuple[StreamMetadata, ...]


class Objects(msgspec.Struct, frozen=True, array_like=True, tag=3):
    rows: tuple[ObjectMetadata, ...]


class CopiesRow(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The last two fields of an ObjectMetadata, which are not in its own row."""

    object_id: int
    copies: tuple[int, ...]
    uncertain: tuple[int, ...]


class SnapshotCopies(msgspec.Struct, frozen=True, array_like=True, tag=24):
    """The part with the objects that are in several buckets, or may be."""

    rows: tuple[CopiesRow, ...]


class Nodes(msgspec.Struct, frozen=True, array_like=True, tag=4):
    rows: tuple[NodeMetadata, ...]


class Keys(msgspec.Struct, frozen=True, array_like=True, tag=5):
    rows: tuple[tuple[str, bytes], ...]


class Jobs(msgspec.Struct, frozen=True, array_like=True, tag=6):
    rows: tuple[JobMetadata, ...]


class SnapshotTopics(msgspec.Struct, frozen=True, array_like=True, tag=7):
    rows: tuple[TopicMetadata, ...]


class Sequences(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """Each row is a sequence's name and its next number."""

    rows: tuple[tuple[str, int], ...]


class Pins(msgspec.Struct, frozen=True, array_like=True, tag=75):
    rows: tuple[ScanPin, ...]


class Users(msgspec.Struct, frozen=True, array_like=True, tag=80):
    """A program without logins refuses a snapshot that has users: it would let everybody in."""

    rows: tuple[ScramUser, ...]


class EndedSessions(msgspec.Struct, frozen=True, array_like=True, tag=87):
    """Each row is a principal and the version at which its sessions were ended."""

    rows: tuple[tuple[str, int], ...]


class Acls(msgspec.Struct, frozen=True, array_like=True, tag=82):
    """A program without authorization refuses a snapshot that has ACLs or a mode: it would let everybody in."""

    rows: tuple[AclBinding, ...]


class SnapshotAuthorization(msgspec.Struct, frozen=True, array_like=True, tag=86):
    """One row, and no part at all while the store never had a mode or a super user."""

    rows: tuple[Authorization, ...]


class Quotas(msgspec.Struct, frozen=True, array_like=True, tag=84):
    """A program without quotas refuses a snapshot that has some: it would limit nobody."""

    rows: tuple[ClientQuota, ...]


class SnapshotLevel(msgspec.Struct, frozen=True, array_like=True, tag=91):
    """One row, and no part at all at level 1. It comes before the parts that a program of a lower level cannot decode,
    so such a program says the level, and not what it could not decode."""

    rows: tuple[StoreLevel, ...]


Part: TypeAlias = (
    Contents
    | Streams
    | Objects
    | Nodes
    | Keys
    | Jobs
    | SnapshotTopics
    | Sequences
    | Pins
    | SnapshotCopies
    | Users
    | EndedSessions
    | Acls
    | SnapshotAuthorization
    | Quotas
    | SnapshotLevel
)
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Part] = msgspec.msgpack.Decoder(Part)


def encode_snapshot(image: MetadataImage) -> Iterator[bytes]:
    """Yields the chunks; each is encoded when the caller asks for it."""
    for number, part in enumerate(_parts(image)):
        yield seal(CHUNK_MAGIC, _LABEL.pack(number, image.version), _encoder.encode(part))


def _parts(image: MetadataImage) -> Iterator[Part]:
    copies = [
        CopiesRow(row.object_id, row.copies, row.uncertain)
        for row in _by_key(image.objects)
        if row.copies or row.uncertain
    ]
    authorization = [] if image.authorization == Authorization() else [image.authorization]
    level = [] if image.level == StoreLevel() else [image.level]
    tables: tuple[Sized, ...] = (
        image.streams, image.objects, image.nodes, image.keys, image.jobs, image.topics, image.sequences,
        image.pins, copies, image.users, image.ended_sessions, image.acls, authorization,
        image.quotas, level,
    )  # fmt: skip
    yield Contents(
        next_stream_id=image.next_stream_id,
        next_object_id=image.next_object_id,
        next_job_id=image.next_job_id,
        row_count=sum(map(len, tables)),
        append_id=bytes.fromhex(image.append_id),
    )
    yield from _parts_of(SnapshotLevel, level)
    without_ranges = (replace(stream, ranges=()) for stream in _by_key(image.streams))
    yield from _parts_of(Streams, without_ranges)
    yield from _parts_of(_objects, _by_key(image.objects), lambda row: 1 + len(row.ranges))
    yield from _parts_of(SnapshotCopies, copies)
    yield from _parts_of(Nodes, _by_key(image.nodes))
    yield from _parts_of(Keys, sorted(image.keys.items()), lambda row: 1 + len(row[1]) // 32)
    yield from _parts_of(Jobs, _by_key(image.jobs))
    yield from _parts_of(SnapshotTopics, _by_key(image.topics), _topic_weight)
    yield from _parts_of(Sequences, sorted(image.sequences.items()))
    yield from _parts_of(Pins, _by_key(image.pins))
    yield from _parts_of(Users, _by_key(image.users), lambda row: 1 + 8 * len(row.credentials))
    yield from _parts_of(EndedSessions, sorted(image.ended_sessions.items()))
    yield from _parts_of(Acls, _by_key(image.acls), lambda row: 1 + len(row.key) // 32)
    yield from _parts_of(SnapshotAuthorization, authorization)
    yield from _parts_of(Quotas, _by_key(image.quotas), lambda row: 2 + len(row.key) // 32)


def _objects(rows: tuple[ObjectMetadata, ...]) -> Part:
    """Returns the part with the rows as they were before there were copies, without the last two fields."""
    return Objects(tuple(astuple(row)[:-2] for row in rows))  # type: ignore[misc]  # encoded like the fields


def _topic_weight(row: TopicMetadata) -> int:
    configs_length = sum(len(key) + len(value) for key, value in row.configs.items())
    return 1 + len(row.partitions) + configs_length // 32


def _by_key(table: Mapping[K, T]) -> Iterator[T]:
    return (table[key] for key in sorted(table))


def _parts_of(
    kind: Callable[[tuple[T, ...]], Part], rows: Iterable[T], weight_of: Callable[[T], int] = lambda _: 1
) -> Iterator[Part]:
    chunk: list[T] = []
    weight = 0
    for row in rows:
        if chunk and weight + weight_of(row) > CHUNK_WEIGHT:
            yield kind(tuple(chunk))
            chunk, weight = [], 0
        chunk.append(row)
        weight += weight_of(row)
    if chunk:
        yield kind(tuple(chunk))


def decode_snapshot(version: int, chunks: Iterable[bytes]) -> MetadataImage:
    """Decodes the chunks of the snapshot at ``version``. Raises the errors of ``unseal``, SnapshotIncomplete,
    SnapshotPartUnknown, LevelUnknown."""
    parts = (_decode_part(version, number, chunk) for number, chunk in enumerate(chunks))
    contents = next(parts, None)
    if not isinstance(contents, Contents):
        raise SnapshotIncomplete(
            f"the first chunk of the metadata snapshot at version {version} is missing; "
            "restore the database from a backup"
        )
    rows: dict[type[Part], list[Any]] = defaultdict(list)
    for part in parts:
        if isinstance(part, Contents):
            raise SnapshotIncomplete(
                f"the metadata snapshot at version {version} has two first chunks; restore the database from a backup"
            )
        if isinstance(part, SnapshotLevel):
            for level in part.rows:
                refuse_unknown_level(level)
        rows[type(part)].extend(part.rows)
    found = sum(map(len, rows.values()))
    if found != contents.row_count:
        raise SnapshotIncomplete(
            f"the metadata snapshot at version {version} has {found} of {contents.row_count} rows; "
            "restore the database from a backup"
        )
    return _image(version, contents, rows)


def _decode_part(version: int, number: int, chunk: bytes) -> Part:
    label, body = unseal(CHUNK_MAGIC, chunk)
    if _LABEL.unpack(label) != (number, version):
        raise SnapshotIncomplete(
            f"chunk {number} of the metadata snapshot at version {version} is missing; "
            "restore the database from a backup"
        )
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise SnapshotPartUnknown(
            f"chunk {number} of the metadata snapshot at version {version} cannot be decoded ({error}); "
            "use the version of this program that wrote it"
        ) from error


def _image(version: int, contents: Contents, rows: Mapping[type[Part], list[Any]]) -> MetadataImage:
    objects = _with_copies(rows[Objects], rows[SnapshotCopies])
    return MetadataImage(
        version=version,
        append_id=contents.append_id.hex() or NO_APPEND_ID,
        next_stream_id=contents.next_stream_id,
        next_object_id=contents.next_object_id,
        next_job_id=contents.next_job_id,
        streams=ShardedMap(_streams_with_ranges(rows[Streams], objects)),
        objects=ShardedMap((row.object_id, row) for row in objects),
        prepared=ShardedMap(
            (row.object_id, row.deadline_ms) for row in objects if row.state is ObjectState.PREPARED
        ),
        destroyed=ShardedMap(
            (row.object_id, row.destroyed_ms) for row in objects if row.state is ObjectState.DESTROYED
        ),
        nodes=ShardedMap((row.node_id, row) for row in rows[Nodes]),
        keys=ShardedMap(rows[Keys]),
        jobs=ShardedMap((row.job_id, row) for row in rows[Jobs]),
        topics=ShardedMap((row.topic_id, row) for row in rows[SnapshotTopics]),
        topic_ids=ShardedMap((row.name, row.topic_id) for row in rows[SnapshotTopics]),
        sequences=ShardedMap(rows[Sequences]),
        leader_counts=ShardedMap(_leader_counts(rows[SnapshotTopics]).items()),
        pins=ShardedMap((row.token, row) for row in rows[Pins]),
        users=ShardedMap((row.name, row) for row in rows[Users]),
        ended_sessions=ShardedMap(rows[EndedSessions]),
        acls=ShardedMap((row.key, row) for row in rows[Acls]),
        authorization=next(iter(rows[SnapshotAuthorization]), Authorization()),
        quotas=ShardedMap((row.key, row) for row in rows[Quotas]),
        level=next(iter(rows[SnapshotLevel]), StoreLevel()),
    )


def _with_copies(objects: list[ObjectMetadata], copies: list[CopiesRow]) -> list[ObjectMetadata]:
    if not copies:
        return objects
    of_object = {row.object_id: row for row in copies}
    return [
        row if found is None else replace(row, copies=found.copies, uncertain=found.uncertain)
        for row in objects
        for found in [of_object.get(row.object_id)]
    ]


def _leader_counts(topics: Iterable[TopicMetadata]) -> Counter[int]:
    leaders = (partition.leader for topic in topics for partition in topic.partitions)
    return Counter(leader for leader in leaders if leader != NO_NODE)


def _streams_with_ranges(
    streams: Iterable[StreamMetadata], objects: Iterable[ObjectMetadata]
) -> Iterator[tuple[int, StreamMetadata]]:
    """Yields stream id and stream, each with the ranges that the objects hold of it. Raises SnapshotIncomplete."""
    held: defaultdict[int, list[ObjectRange]] = defaultdict(list)
    for row in objects:
        for one in row.ranges:
            held[one.stream_id].append(one)
    for stream in streams:
        ranges = held.pop(stream.stream_id, None)
        if ranges is None:
            yield stream.stream_id, stream
        else:
            ranges.sort(key=lambda one: one.start_offset)
            yield stream.stream_id, replace(stream, ranges=tuple(ranges))
    if held:
        raise SnapshotIncomplete(
            f"objects of the metadata snapshot hold ranges of streams {sorted(held)[:10]}, which it does not contain; "
            "restore the database from a backup"
        )
