"""Image ⇄ bytes, in chunks, so that no single value grows with the image.

A chunk is a sealed frame (``framing``) with magic "SIMG"; its label is the chunk's number and the image's version, 8
bytes each, little endian; its body is one part: first the ``Contents``, then rows of one kind, cut by their weight.
Rows stand in the order of their ids, so equal images give equal bytes. A stream's ranges are not written: they are
those of the objects, and the image shares them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from struct import Struct
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from siltstone.foundation.sharded_map import ShardedMap
from siltstone.metadata.entities import (
    JobMetadata,
    NodeMetadata,
    ObjectMetadata,
    StreamMetadata,
    TopicMetadata,
)
from siltstone.metadata.framing import seal, unseal
from siltstone.metadata.image import MetadataImage
from siltstone.model.errors import CorruptData
from siltstone.model.objects import ObjectRange, ObjectState

CHUNK_MAGIC = b"SIMG"
CHUNK_WEIGHT = 10_000
"""A row, and each range of an object, weighs 1, each partition of a topic and each 32 bytes of a value too: chunks stay
below about a megabyte, however the ranges are spread over objects."""

_LABEL = Struct("<QQ")
K = TypeVar("K", int, str)
T = TypeVar("T")


class SnapshotIncomplete(CorruptData):
    """Chunks are missing, doubled, of another snapshot, or hold other rows than the first one says."""


class SnapshotPartUnknown(CorruptData):
    """A whole chunk this program cannot read: a newer one wrote it."""


class Contents(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The first part: counters, and how many rows follow in all."""

    next_stream_id: int
    next_object_id: int
    next_job_id: int
    row_count: int


class Streams(msgspec.Struct, frozen=True, array_like=True, tag=2):
    rows: tuple[StreamMetadata, ...]


class Objects(msgspec.Struct, frozen=True, array_like=True, tag=3):
    rows: tuple[ObjectMetadata, ...]


class Nodes(msgspec.Struct, frozen=True, array_like=True, tag=4):
    rows: tuple[NodeMetadata, ...]


class Keys(msgspec.Struct, frozen=True, array_like=True, tag=5):
    rows: tuple[tuple[str, bytes], ...]


class Jobs(msgspec.Struct, frozen=True, array_like=True, tag=6):
    rows: tuple[JobMetadata, ...]


class Topics(msgspec.Struct, frozen=True, array_like=True, tag=7):
    rows: tuple[TopicMetadata, ...]


class Sequences(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """Name, next number."""

    rows: tuple[tuple[str, int], ...]


Part: TypeAlias = Contents | Streams | Objects | Nodes | Keys | Jobs | Topics | Sequences
_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Part] = msgspec.msgpack.Decoder(Part)


def encode_snapshot(image: MetadataImage) -> Iterator[bytes]:
    """The chunks, made as they are asked for."""
    for number, part in enumerate(_parts(image)):
        yield seal(CHUNK_MAGIC, _LABEL.pack(number, image.version), _encoder.encode(part))


def _parts(image: MetadataImage) -> Iterator[Part]:
    tables: tuple[Sized, ...] = (
        image.streams, image.objects, image.nodes, image.keys, image.jobs, image.topics, image.sequences,
    )  # fmt: skip
    yield Contents(
        next_stream_id=image.next_stream_id,
        next_object_id=image.next_object_id,
        next_job_id=image.next_job_id,
        row_count=sum(map(len, tables)),
    )
    without_ranges = (replace(stream, ranges=()) for stream in _by_key(image.streams))
    yield from _parts_of(Streams, without_ranges)
    yield from _parts_of(Objects, _by_key(image.objects), lambda row: 1 + len(row.ranges))
    yield from _parts_of(Nodes, _by_key(image.nodes))
    yield from _parts_of(Keys, sorted(image.keys.items()), lambda row: 1 + len(row[1]) // 32)
    yield from _parts_of(Jobs, _by_key(image.jobs))
    yield from _parts_of(Topics, _by_key(image.topics), _topic_weight)
    yield from _parts_of(Sequences, sorted(image.sequences.items()))


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
    """Raises the errors of ``framing.unseal``, SnapshotIncomplete, SnapshotPartUnknown."""
    parts = (_decode_part(version, number, chunk) for number, chunk in enumerate(chunks))
    contents = next(parts, None)
    if not isinstance(contents, Contents):
        raise SnapshotIncomplete("the snapshot has no beginning; restore the database from a backup")
    rows: dict[type[Part], list[Any]] = defaultdict(list)
    for part in parts:
        if isinstance(part, Contents):
            raise SnapshotIncomplete("the snapshot begins twice; restore the database from a backup")
        rows[type(part)].extend(part.rows)
    found = sum(map(len, rows.values()))
    if found != contents.row_count:
        raise SnapshotIncomplete(f"{found} of {contents.row_count} rows; restore the database from a backup")
    return _image(version, contents, rows)


def _decode_part(version: int, number: int, chunk: bytes) -> Part:
    label, body = unseal(CHUNK_MAGIC, chunk)
    if _LABEL.unpack(label) != (number, version):
        raise SnapshotIncomplete(f"chunk {number} of version {version} is missing; restore from a backup")
    try:
        return _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise SnapshotPartUnknown(
            f"snapshot cannot be read ({error}); use the version that wrote it"
        ) from error


def _image(version: int, contents: Contents, rows: Mapping[type[Part], list[Any]]) -> MetadataImage:
    objects: list[ObjectMetadata] = rows[Objects]
    return MetadataImage(
        version=version,
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
        topics=ShardedMap((row.topic_id, row) for row in rows[Topics]),
        topic_ids=ShardedMap((row.name, row.topic_id) for row in rows[Topics]),
        sequences=ShardedMap(rows[Sequences]),
    )


def _streams_with_ranges(
    streams: Iterable[StreamMetadata], objects: Iterable[ObjectMetadata]
) -> Iterator[tuple[int, StreamMetadata]]:
    """The objects' own ranges, sorted into the streams' lists."""
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
        raise SnapshotIncomplete(f"objects hold ranges of streams {sorted(held)[:10]}, which are not there")
