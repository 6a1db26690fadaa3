"""The tables ``objects``, ``object_ranges`` and ``buckets``. Pure.

A million objects are a million values of the image; everything that is computed for them is computed in numpy, for a
batch at once. ``live_bytes`` counts the ranges with any live offset, as they were written: what is below the
start of a stream inside of a range is not subtracted, because only the index of the object tells its size.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from siltstone.foundation.credentials import without_url_credentials
from siltstone.foundation.sharded_map import ShardedMap
from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata_tables.columns import (
    MetadataColumn,
    MetadataTable,
    MetadataType,
    RowChunk,
    computed,
    field,
    labelled,
    texts,
    time,
    whole,
)
from siltstone.metadata_tables.moment import Moment
from siltstone.model.buckets import BucketDefinition
from siltstone.model.objects import ObjectRange, ObjectState
from siltstone.record_columns.arrow import require_arrow

_ranges = attrgetter("ranges")
_STATES = (None, "PREPARED", "COMMITTED", "DESTROYED")
_KINDS = (None, "SSO", "SO")


class _ById(Sequence[ObjectMetadata]):
    """The objects in the order of their ids, looked up when they are asked for."""

    def __init__(self, objects: ShardedMap[int, ObjectMetadata], ids: Iterable[int], count: int) -> None:
        self._objects = objects
        self._ids = np.fromiter(ids, np.int64, count)
        self._ids.sort()

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return self._objects.values_of(self._ids[at].tolist())
        return self._objects[int(self._ids[at])]


def _objects(moment: Moment, topic: str | None) -> _ById:
    objects = moment.image.objects
    if topic is None:
        return _ById(objects, objects, len(objects))
    streams = (moment.image.streams.get(each) for each in moment.stream_ids_of(topic))
    ids = {held.object_id for stream in streams if stream is not None for held in stream.ranges}
    return _ById(objects, ids, len(ids))


class ObjectChunk(RowChunk):
    """The ranges of all objects of the batch lie one after another in columns. Those of object n are from
    ``begins[n]`` up to ``begins[n + 1]``."""

    @cached_property
    def counts(self) -> Any:
        return np.fromiter(map(len, map(_ranges, self.rows)), np.int64, len(self.rows))

    @cached_property
    def begins(self) -> Any:
        return np.concatenate(([0], np.cumsum(self.counts)))

    @cached_property
    def places(self) -> Any:
        """The place of the stream of each range."""
        return self.moment.columns.places(self._of_ranges("stream_id"))

    @cached_property
    def live_bytes(self) -> Any:
        are_live = self._of_ranges("end_offset") > self.moment.columns.live_from[self.places]
        added = np.concatenate(([0], np.cumsum(self._of_ranges("size_bytes") * are_live)))
        return added[self.begins[1:]] - added[self.begins[:-1]]

    @property
    def dead_bytes(self) -> Any:
        """What is in no live range: the index, and for objects that are not committed all bytes."""
        return np.maximum(self.numbers("size_bytes") - self.live_bytes, 0)

    @property
    def topics(self) -> Any:
        """The topic of each object that holds one topic only; None for the others."""
        columns = self.moment.columns
        codes = columns.topics[self.places]
        of_object = np.zeros(len(self.rows), np.int64)
        holding = np.flatnonzero(self.counts)
        if len(holding):
            firsts = self.begins[:-1][holding]
            smallest, largest = np.minimum.reduceat(codes, firsts), np.maximum.reduceat(codes, firsts)
            of_object[holding] = np.where(smallest == largest, smallest, 0)
        return texts(columns.topic_names, of_object)

    @property
    def kinds(self) -> Any:
        codes = (0 if each.kind is None else int(each.kind) for each in self.rows)
        return texts(_KINDS, np.fromiter(codes, np.int64, len(self.rows)))

    def _of_ranges(self, name: str) -> Any:
        held = chain.from_iterable(map(_ranges, self.rows))
        return np.fromiter(map(attrgetter(name), held), np.int64, self.begins[-1])


OBJECTS = MetadataTable(
    "objects",
    "The objects of the store: committed, being uploaded (prepared), or waiting for deletion (destroyed).",
    (
        whole("object_id", "The number of the object; its key in the bucket follows from it."),
        MetadataColumn(
            "kind",
            MetadataType.TEXT,
            "`SSO` (stream set object), `SO` (stream object); null until it is committed.",
            attrgetter("kinds"),
        ),
        labelled("state", "`PREPARED`, `COMMITTED` or `DESTROYED`.", "state", _STATES),
        whole("bucket", "The bucket in which it is.", "bucket_id"),
        field("copies", MetadataType.WHOLES, "The other buckets in which it is, too."),
        MetadataColumn(
            "topic",
            MetadataType.TEXT,
            "Its topic; null if it holds several topics (see `object_ranges`) or no range.",
            attrgetter("topics"),
        ),
        whole("bytes", "Its size; 0 until it is committed.", "size_bytes"),
        MetadataColumn(
            "live_bytes",
            MetadataType.WHOLE,
            "The bytes of its ranges that any reader may still read.",
            attrgetter("live_bytes"),
        ),
        MetadataColumn("dead_bytes", MetadataType.WHOLE, "All other bytes of it.", attrgetter("dead_bytes")),
        MetadataColumn(
            "ranges",
            MetadataType.WHOLE,
            "How many ranges of offsets it holds.",
            attrgetter("counts"),
        ),
        time(
            "data_at", "When the oldest data in it was uploaded first; compaction keeps this.", "data_time_ms"
        ),
        time("committed_at", "When it was committed; null if it was not.", "committed_ms"),
        time(
            "deadline_at",
            "A prepared object must be committed before this; null for committed ones.",
            "deadline_ms",
        ),
        time(
            "destroyed_at",
            "When it was destroyed; its bytes stay for the grace period. Null if it was not.",
            "destroyed_ms",
        ),
        whole(
            "destroyed_version",
            "The version of the metadata that destroyed it; 0 if none has.",
            "destroyed_version",
        ),
    ),
    _objects,
    ObjectChunk,
)


# -- ranges ----------------------------------------------------------------------------------------------------------


def _object_ranges(moment: Moment, topic: str | None) -> Iterator[ObjectRange]:
    """Yields the ranges in the order of objects; of one topic in the order of its streams."""
    if topic is None:
        rows = _objects(moment, None)
        for first in range(0, len(rows), 1_000):
            yield from chain.from_iterable(map(_ranges, rows[first : first + 1_000]))
        return
    for stream_id in moment.stream_ids_of(topic):
        if (stream := moment.image.streams.get(stream_id)) is not None:
            yield from stream.ranges


class RangeChunk(RowChunk):
    @cached_property
    def places(self) -> Any:
        return self.moment.columns.places(self.numbers("stream_id"))

    @property
    def topics(self) -> Any:
        return texts(self.moment.columns.topic_names, self.moment.columns.topics[self.places])

    @property
    def partitions(self) -> Any:
        arrow = require_arrow()
        numbers = self.moment.columns.partitions[self.places]
        return arrow.array(numbers.astype(np.int32), mask=numbers < 0)

    @property
    def roles(self) -> Any:
        return texts(self.moment.columns.role_names, self.moment.columns.roles[self.places])

    @property
    def offsets(self) -> Any:
        return self.numbers("end_offset") - self.numbers("start_offset")

    @property
    def are_live(self) -> Any:
        return self.numbers("end_offset") > self.moment.columns.live_from[self.places]


OBJECT_RANGES = MetadataTable(
    "object_ranges",
    "The ranges of offsets that committed objects hold. Sum `bytes` of these to know what a topic uses.",
    (
        whole("object_id", "The object."),
        whole("stream_id", "The stream."),
        MetadataColumn(
            "topic",
            MetadataType.TEXT,
            "The topic of the stream, also if it was deleted.",
            attrgetter("topics"),
        ),
        MetadataColumn(
            "partition", MetadataType.PARTITION, "The partition of the stream.", attrgetter("partitions")
        ),
        MetadataColumn(
            "role",
            MetadataType.TEXT,
            "`data` for records, `meta` for what the broker knows about them.",
            attrgetter("roles"),
        ),
        whole("start_offset", "The first offset."),
        whole("end_offset", "The offset after the last one."),
        MetadataColumn(
            "offsets",
            MetadataType.WHOLE,
            "How many offsets that are; key compaction leaves gaps.",
            attrgetter("offsets"),
        ),
        whole("bytes", "The size of their blocks.", "size_bytes"),
        MetadataColumn(
            "is_live",
            MetadataType.FLAG,
            "Whether any of its offsets may still be read.",
            attrgetter("are_live"),
        ),
        time(
            "newest_at",
            "The largest timestamp of its records; null if they have none.",
            "largest_timestamp_ms",
        ),
    ),
    _object_ranges,
    RangeChunk,
)


# -- buckets ---------------------------------------------------------------------------------------------------------


class BucketContents(msgspec.Struct, frozen=True):
    """``held``: state of objects → their number and their bytes in this bucket."""

    bucket: int
    definition: BucketDefinition | None
    held: dict[ObjectState, tuple[int, int]]

    def objects(self, state: ObjectState) -> int:
        return self.held.get(state, (0, 0))[0]

    def size_bytes(self, state: ObjectState) -> int:
        return self.held.get(state, (0, 0))[1]


def _buckets(moment: Moment, topic: str | None) -> list[BucketContents]:
    """Returns the buckets that are listed, and those in which any object is."""
    del topic
    held: dict[int, dict[ObjectState, tuple[int, int]]] = defaultdict(dict)
    for each in moment.image.objects.values():
        for bucket_id in each.bucket_ids:
            count, size_bytes = held[bucket_id].get(each.state, (0, 0))
            held[bucket_id][each.state] = count + 1, size_bytes + each.size_bytes
    listed = {each.id: each for each in bucket_list_of(moment.image).buckets}
    return [
        BucketContents(each, listed.get(each), held.get(each, {}))
        for each in sorted(listed.keys() | held.keys())
    ]


def _shown_url(moment: Moment, row: BucketContents) -> str | None:
    del moment
    return None if row.definition is None else without_url_credentials(row.definition.url)


BUCKETS = MetadataTable(
    "buckets",
    "The buckets of the store, with what is in them.",
    (
        whole("bucket", "The number of the bucket."),
        computed("url", MetadataType.TEXT, "Where it is; null if it is not listed.", _shown_url),
        computed(
            "state",
            MetadataType.TEXT,
            "`read-only`, `writable`, `draining` or `removed`; null if it is not listed.",
            lambda _, row: row.definition and row.definition.state.value,
        ),
        computed(
            "weight",
            MetadataType.WHOLE,
            "Its share under dynamic sharding; null if it is not listed.",
            lambda _, row: row.definition and row.definition.weight,
        ),
        computed(
            "objects",
            MetadataType.WHOLE,
            "Committed objects in it; a copy counts like an object.",
            lambda _, row: row.objects(ObjectState.COMMITTED),
        ),
        computed(
            "bytes", MetadataType.WHOLE, "Their bytes.", lambda _, row: row.size_bytes(ObjectState.COMMITTED)
        ),
        computed(
            "destroyed_objects",
            MetadataType.WHOLE,
            "Objects in it that wait for their deletion.",
            lambda _, row: row.objects(ObjectState.DESTROYED),
        ),
        computed(
            "destroyed_bytes",
            MetadataType.WHOLE,
            "Their bytes.",
            lambda _, row: row.size_bytes(ObjectState.DESTROYED),
        ),
        computed(
            "prepared_objects",
            MetadataType.WHOLE,
            "Objects that are being uploaded into it.",
            lambda _, row: row.objects(ObjectState.PREPARED),
        ),
    ),
    _buckets,
)
