"""Plans the units of a scan from one image. Pure.

One image decides everything, so a scan of many partitions is a consistent cut. Three steps: ``wanted_partitions``
(which, by name, with their topic ids), ``cut`` (from which offset to which, after times and tails were looked up), and
``plan_pieces`` (which objects hold the offsets, cut and joined to units of about the wanted size).

Every offset below a stream's end offset has to be covered by committed objects (rule 3); a range that the image does
not cover is an error, never a shorter scan.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from siltstone.metadata.entities import StreamMetadata, TopicMetadata
from siltstone.metadata.image import ImageView
from siltstone.metadata.lookup import committed_object, find_ranges
from siltstone.model.objects import ObjectKind
from siltstone.offline.topic_streams import PartitionName
from siltstone.scanning.failures import (
    DataLost,
    OffsetBeyondEnd,
    RangeNotCovered,
    ScanRefused,
    TopicNotThere,
)
from siltstone.scanning.request import ScanRequest, TimeRange
from siltstone.scanning.unit import ScanPiece

VALIDATION, VALIDATES_RECORDS = "siltstone.record.validation", "full"

UNITS_MAX = 20_000
"""The most units of one scan. Spark's driver holds all of them and takes milliseconds for each."""


class ScanPartition(msgspec.Struct, frozen=True):
    """A wanted partition as the image shows it. Its objects hold [start_offset, committed_offset)."""

    topic: TopicMetadata
    partition: int
    stream: StreamMetadata

    @property
    def name(self) -> str:
        return f"{self.topic.name}-{self.partition}"

    @property
    def key(self) -> PartitionName:
        return self.topic.name, self.partition

    @property
    def start_offset(self) -> int:
        return self.stream.start_offset

    @property
    def committed_offset(self) -> int:
        return self.stream.end_offset


class Cut(msgspec.Struct, frozen=True):
    """The offsets [start, end) of a partition that a scan reads. Offsets from ``committed_end`` on are in its tail.
    ``warning`` names offsets that the request wants and the cut leaves out."""

    of: ScanPartition
    start_offset: int
    end_offset: int
    warning: str = ""

    @property
    def committed_end(self) -> int:
        return max(self.start_offset, min(self.end_offset, self.of.committed_offset))

    @property
    def has_tail(self) -> bool:
        return self.committed_end < self.end_offset


# -- which partitions ------------------------------------------------------------------------------------------


def wanted_partitions(image: ImageView, request: ScanRequest) -> list[ScanPartition]:
    """Returns the partitions that the request names, sorted by topic name and number. Raises TopicNotThere,
    ScanRefused."""
    found = [
        ScanPartition(topic, number, image.streams[topic.partitions[number].data_stream_id])
        for topic, numbers in _wanted_topics(image, request)
        for number in numbers
        if request.partitions is None or number in request.partitions
    ]
    return sorted(found, key=lambda each: each.key)


def renewed(image: ImageView, partitions: Iterable[ScanPartition]) -> list[ScanPartition]:
    """Returns the same partitions as a newer image shows them. Raises TopicNotThere if a topic was deleted since."""
    return [
        ScanPartition(_same_topic(image, each.topic), each.partition, image.streams[each.stream.stream_id])
        for each in partitions
    ]


def _same_topic(image: ImageView, topic: TopicMetadata) -> TopicMetadata:
    newer = image.topics.get(topic.topic_id)
    if newer is None:
        raise TopicNotThere(f"topic {topic.name} was deleted while the scan was planned")
    return newer


def _wanted_topics(image: ImageView, request: ScanRequest) -> Iterator[tuple[TopicMetadata, Sequence[int]]]:
    if request.assigned is not None:
        for name, numbers in request.assigned.items():
            topic = _topic(image, name)
            _refuse_unknown_partitions(topic, numbers)
            yield topic, sorted(set(numbers))
        return
    for name in (
        _matching(image, request.pattern) if request.pattern is not None else dict.fromkeys(request.topics)
    ):
        topic = _topic(image, name)
        _refuse_unknown_partitions(topic, request.partitions or ())
        yield topic, range(len(topic.partitions))


def _matching(image: ImageView, pattern: str) -> list[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as cause:
        raise ScanRefused(f"subscribePattern {pattern!r} is not a regular expression: {cause}") from cause
    topics = image.topics.values()
    return sorted(each.name for each in topics if not each.is_internal and compiled.fullmatch(each.name))


def _topic(image: ImageView, name: str) -> TopicMetadata:
    topic_id = image.topic_ids.get(name)
    if topic_id is None:
        known = sorted(topic.name for topic in image.topics.values() if not topic.is_internal)
        there_are = f"it has {', '.join(known[:10])}" if known else "it has none"
        raise TopicNotThere(f"the store has no topic {name!r}: {there_are}")
    return image.topics[topic_id]


def _refuse_unknown_partitions(topic: TopicMetadata, numbers: Iterable[int]) -> None:
    count = len(topic.partitions)
    for number in numbers:
        if not 0 <= number < count:
            raise TopicNotThere(f"topic {topic.name} has no partition {number}: it has {count}, from 0 on")


# -- from which offset to which --------------------------------------------------------------------------------


def cut(partition: ScanPartition, start: int, end: int, *, end_offset: int, fail_on_data_loss: bool) -> Cut:
    """Returns the cut from the wanted ``start`` to the wanted ``end``. ``end_offset`` is the end of the offsets that
    can be read. Raises DataLost, OffsetBeyondEnd; without ``fail_on_data_loss`` the cut becomes shorter and has a
    warning."""
    first = partition.start_offset
    warnings: list[str] = []
    for trouble in _troubles(partition, start, end, end_offset):
        if fail_on_data_loss:
            raise trouble
        warnings.append(str(trouble))
    bounded_start = min(max(start, first), end_offset)
    bounded_end = max(min(end, end_offset), bounded_start)
    return Cut(partition, bounded_start, bounded_end, "; ".join(warnings))


def _troubles(
    partition: ScanPartition, start: int, end: int, end_offset: int
) -> Iterator[DataLost | OffsetBeyondEnd]:
    if start < partition.start_offset:
        yield DataLost(partition.name, start, partition.start_offset)
    if max(start, end) > end_offset:
        yield OffsetBeyondEnd(partition.name, max(start, end), end_offset)


# -- which objects ---------------------------------------------------------------------------------------------


class UnitPlan(msgspec.Struct, frozen=True):
    """The pieces of each unit. ``warning`` says that the units are larger than wanted."""

    units: tuple[tuple[ScanPiece, ...], ...]
    warning: str = ""


def plan_pieces(
    image: ImageView, cuts: Iterable[Cut], request: ScanRequest, units_max: int = UNITS_MAX
) -> UnitPlan:
    """Finds the objects that hold the cuts, cuts large pieces and joins small ones. At most ``units_max`` units: if
    there would be more, the limits are raised. Raises RangeNotCovered."""
    whole = [piece for each in cuts for piece in pieces_of(image, each, request.times)]
    if request.by_object:
        whole = _by_object(image, whole)
    total_bytes = sum(piece.size_bytes for piece in whole)
    bytes_max = max(request.unit_bytes_max, 1)
    if request.units_min:
        bytes_max = max(1, min(bytes_max, total_bytes // request.units_min))
    offsets_max = request.unit_offsets_max or 2**63
    wanted = bytes_max
    while True:
        units = _joined(_limited(whole, bytes_max, offsets_max), bytes_max, offsets_max)
        if len(units) <= units_max:
            break
        bytes_max, offsets_max = 2 * bytes_max, 2 * offsets_max
    raised = (
        ""
        if bytes_max == wanted
        else (
            f"the scan would have more than {units_max:,} units of {wanted:,} bytes; each has up to {bytes_max:,} bytes"
        )
    )
    return UnitPlan(units, raised)


def believed_from_ms(topic: TopicMetadata, times: TimeRange | None) -> int | None:
    """Objects and blocks whose largest timestamp is lower than the result are not read; None: all are read. A batch's
    largest timestamp is what its producer wrote. It is believed only if a broker has compared it with the records (the
    configuration ``siltstone.record.validation``), or if the caller says so."""
    if times is None or times.from_ms is None:
        return None
    is_validated = topic.configs.get(VALIDATION) == VALIDATES_RECORDS
    return times.from_ms if times.trusts_batches or is_validated else None


def pieces_of(image: ImageView, wanted: Cut, times: TimeRange | None) -> Iterator[ScanPiece]:
    stream_id, next_offset, end = wanted.of.stream.stream_id, wanted.start_offset, wanted.committed_end
    passed_over_ms = believed_from_ms(wanted.of.topic, times)
    if next_offset >= end:
        return
    for held in find_ranges(image, stream_id, next_offset, end):
        metadata = committed_object(image, held.object_id)
        if metadata is None:
            break
        until = min(held.end_offset, end)
        offsets = held.end_offset - held.start_offset
        if passed_over_ms is not None and held.largest_timestamp_ms < passed_over_ms:
            next_offset = until
            continue
        yield ScanPiece(
            wanted.of.topic.name,
            wanted.of.partition,
            stream_id,
            held.object_id,
            metadata.bucket_id,
            metadata.size_bytes,
            next_offset,
            until,
            held.size_bytes * (until - next_offset) // offsets,
            passed_over_ms,
            metadata.copies,
        )
        next_offset = until
    if next_offset < end:
        raise RangeNotCovered(
            f"the metadata names no object for offset {next_offset} of {wanted.of.name}, which ends at"
            f" {wanted.of.committed_offset}: run siltstone check"
        )


def _by_object(image: ImageView, pieces: list[ScanPiece]) -> list[ScanPiece]:
    """Puts the pieces of each stream set object side by side, so that one unit reads its index."""
    first_of: dict[int, int] = {}
    for number, piece in enumerate(pieces):
        first_of.setdefault(piece.object_id, number)

    def place(piece: ScanPiece) -> tuple[bool, int, int, int]:
        is_of_one = image.objects[piece.object_id].kind is ObjectKind.STREAM_OBJECT
        return is_of_one, first_of[piece.object_id], piece.stream_id, piece.start_offset

    return sorted(pieces, key=place)


def _limited(pieces: Iterable[ScanPiece], bytes_max: int, offsets_max: int) -> Iterator[ScanPiece]:
    """Cuts each piece that is too large, by offsets in proportion to its bytes. The positions of blocks are not known
    here, so a part may be a block larger or smaller; the rows are the same."""
    for piece in pieces:
        offsets = piece.end_offset - piece.start_offset
        parts = min(offsets, max(-(-piece.size_bytes // bytes_max), -(-offsets // offsets_max)))
        if parts <= 1:
            yield piece
            continue
        for part in range(parts):
            start = piece.start_offset + offsets * part // parts
            end = piece.start_offset + offsets * (part + 1) // parts
            size = piece.size_bytes * (part + 1) // parts - piece.size_bytes * part // parts
            yield msgspec.structs.replace(piece, start_offset=start, end_offset=end, size_bytes=size)


def _joined(
    pieces: Iterable[ScanPiece], bytes_max: int, offsets_max: int
) -> tuple[tuple[ScanPiece, ...], ...]:
    units: list[tuple[ScanPiece, ...]] = []
    unit: list[ScanPiece] = []
    unit_bytes = unit_offsets = 0
    for piece in pieces:
        offsets = piece.end_offset - piece.start_offset
        if unit and (unit_bytes + piece.size_bytes > bytes_max or unit_offsets + offsets > offsets_max):
            units.append(tuple(unit))
            unit, unit_bytes, unit_offsets = [], 0, 0
        unit.append(piece)
        unit_bytes += piece.size_bytes
        unit_offsets += offsets
    if unit:
        units.append(tuple(unit))
    return tuple(units)
