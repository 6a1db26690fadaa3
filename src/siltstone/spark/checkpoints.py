"""``siltstone.spark.checkpoint``: shows where a stopped streaming query is, moves it, and hands a query of Spark's
Kafka source over to format ``siltstone``.

A *checkpoint* is the folder that a query was started with. Its *offset log* has a file for each micro-batch, with one
line of JSON for each source: the offsets at which the batch ends. Its *commit log* has a file for each micro-batch that
is finished. A query that starts reads the newest entry of both, and continues behind it [Spark: OffsetSeqLog,
MicroBatchExecution.populateStartOffsets].

So a query is moved by replacing one line of one file, which is one atomic step. A copy of the file as it was is kept
in the folder ``siltstone-backups`` of the checkpoint. A query whose newest micro-batch is not finished is not moved: it
runs, or it was killed, and Spark has to do that batch again with the same records, so that the sink has each once.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from siltstone.metadata.image import ImageView
from siltstone.metadata.store_id import store_id_of
from siltstone.model.errors import InvalidRequest
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.topic_streams import PartitionName
from siltstone.scanning.arguments import scan_request
from siltstone.scanning.failures import TopicNotThere
from siltstone.scanning.request import Bound, BoundKind, Bounds, ScanRequest, Tail
from siltstone.scanning.scan import plan_scan
from siltstone.scanning.source import open_source
from siltstone.scanning.streaming.position import StreamPosition, decode_position, encode_position

BACKUPS = "siltstone-backups"
_VERSIONS = ("v1",)
_NOTHING = "-"
"""The line of a source that has no offsets yet."""

Offsets = dict[PartitionName, int]


class CheckpointRefused(InvalidRequest):
    """A checkpoint cannot be read, or its query cannot be moved."""


class SourcePosition(msgspec.Struct, frozen=True):
    """The next offset of each partition that one source of a query reads. ``form`` is ``siltstone``, ``kafka``, or
    ``other``, whose offsets are not understood."""

    form: str
    offsets: Mapping[PartitionName, int] = {}

    def __str__(self) -> str:
        listed = ", ".join(
            f"{topic}-{number} at {offset:,}" for (topic, number), offset in self.offsets.items()
        )
        return f"{self.form}: {listed or 'no offsets'}"


class _Entry(msgspec.Struct, frozen=True):
    """A file of the offset log. ``head`` are the lines before the sources; ``lines`` has one line for each source."""

    batch_id: int
    head: tuple[str, ...]
    lines: tuple[str, ...]


class QueryCheckpoint:
    """A checkpoint in a folder. Each call reads it again."""

    def __init__(self, path: Path | str) -> None:
        self._folder = _folder(path)
        if not (self._folder / "offsets").is_dir():
            raise CheckpointRefused(
                f"{self._folder} is no checkpoint of a streaming query: it has no folder offsets"
            )

    @property
    def batch_id(self) -> int:
        """The number of the newest micro-batch. Raises CheckpointRefused if there is none."""
        return self._newest().batch_id

    @property
    def is_finished(self) -> bool:
        """Whether the newest micro-batch is finished. It is not while the query reads or writes it."""
        return (self._folder / "commits" / str(self.batch_id)).exists()

    @property
    def sources(self) -> tuple[SourcePosition, ...]:
        """Where each source of the query continues, in the order in which the query names them."""
        return tuple(map(_position_of, self._newest().lines))

    def __str__(self) -> str:
        state = "finished" if self.is_finished else "not finished"
        return "\n".join([f"micro-batch {self.batch_id}, {state}", *map(str, self.sources)])

    def move(self, offsets: Mapping[PartitionName | str, int], *, source: int = 0) -> None:
        """Lets the query continue at these offsets, by partition such as ``flights-0``; others stay. Records between
        a lower offset and the old one are read again, those below a higher one are not read. Raises
        CheckpointRefused."""
        entry, position = self._movable(source)
        wanted = {_partition(each): offset for each, offset in offsets.items()}
        for (topic, number), offset in wanted.items():
            if (topic, number) not in position.offsets:
                known = ", ".join(f"{name}-{each}" for name, each in position.offsets)
                raise CheckpointRefused(
                    f"the query has not read from {topic}-{number}; its partitions are {known}"
                )
            if offset < 0:
                raise CheckpointRefused(f"{offset} is no offset of {topic}-{number}: give a number from 0 on")
        self._replace(entry, source, _with_offsets(entry.lines[source], {**position.offsets, **wanted}))

    def rewind(self, to: datetime, *, store: Path | str, source: int = 0) -> None:
        """Lets the query continue at the first record of each partition at or after a time, or at the partition's end
        if there is none. Raises CheckpointRefused, and what planning a scan of the store raises."""
        entry, position = self._movable(source)
        with open_source(_place(store)) as opened:
            moved = _offsets_at(opened, position.offsets, to)
        self._replace(entry, source, _with_offsets(entry.lines[source], moved))

    def to_siltstone(self, *, store: Path | str, source: int = 0) -> None:
        """Lets a query of Spark's Kafka source continue as one of format ``siltstone``: start it with this checkpoint,
        the same sink, and ``readStream.format("siltstone")``. It reads behind the last record that the Kafka source has
        read. The store has to be that of the brokers from which the Kafka source read, since offsets of another
        Kafka are others. Raises CheckpointRefused, TopicNotThere, DataLost, OffsetBeyondEnd."""
        entry, position = self._movable(source)
        if position.form == "siltstone":
            return
        with open_source(_place(store)) as opened:
            image = opened.metadata.refresh()
            form = encode_position(_named_by_ids(image, position.offsets))
            _check(opened, position.offsets)
        self._replace(entry, source, _text(form))

    # -- the files

    def _newest(self) -> _Entry:
        numbers = [int(each.name) for each in (self._folder / "offsets").iterdir() if each.name.isdecimal()]
        if not numbers:
            raise CheckpointRefused(
                f"the query of {self._folder} has had no micro-batch: start it, or begin with a new checkpoint"
            )
        return _entry(max(numbers), (self._folder / "offsets" / str(max(numbers))).read_text())

    def _movable(self, source: int) -> tuple[_Entry, SourcePosition]:
        if _runs_here(self._folder):
            raise CheckpointRefused(f"the query of {self._folder} runs in this Spark: stop it first")
        entry = self._newest()
        if not self.is_finished:
            raise CheckpointRefused(
                f"micro-batch {entry.batch_id} of {self._folder} is not finished: the query runs, or was killed. Stop"
                " it, or let it finish: start it once as it was with trigger(availableNow=True)"
            )
        if not 0 <= source < len(entry.lines):
            raise CheckpointRefused(f"the query has no source {source}: it has {len(entry.lines)}, from 0 on")
        position = _position_of(entry.lines[source])
        if not position.offsets:
            raise CheckpointRefused(
                f"source {source} of the query is neither of format siltstone nor of Spark's Kafka source, or has no"
                f" offsets yet: {entry.lines[source][:200]}"
            )
        return entry, position

    def _replace(self, entry: _Entry, source: int, line: str) -> None:
        """Replaces the line of a source. A reader sees the file as it was, or as it will be. Hadoop's checksum of the
        old file goes first: a file without one is read unchecked."""
        path = self._folder / "offsets" / str(entry.batch_id)
        lines = [*entry.head, *entry.lines[:source], line, *entry.lines[source + 1 :]]
        self._back_up(path)
        written = path.with_name(f".{path.name}.siltstone.tmp")
        with written.open("w") as file:
            file.write("\n".join(lines))
            file.flush()
            os.fsync(file.fileno())
        newest = self._newest()
        if newest != entry:
            written.unlink()
            raise CheckpointRefused(
                f"the query of {self._folder} runs: micro-batch {newest.batch_id} began meanwhile. Stop it first"
            )
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        written.replace(path)
        _sync_folder(path.parent)

    def _back_up(self, path: Path) -> None:
        folder = self._folder / BACKUPS
        folder.mkdir(exist_ok=True)
        number = sum(1 for each in folder.iterdir() if each.name.startswith(f"{path.name}."))
        copy = folder / f"{path.name}.{number}"
        with copy.open("xb") as file:
            file.write(path.read_bytes())
            file.flush()
            os.fsync(file.fileno())
        _sync_folder(folder)


def checkpoint(path: Path | str) -> QueryCheckpoint:
    """Opens the checkpoint of a streaming query that is stopped, in a folder of this machine.

    >>> print(siltstone.spark.checkpoint("/data/checkpoints/copy"))
    micro-batch 17, finished
    kafka: flights-0 at 1,200, flights-1 at 1,187

    Raises CheckpointRefused if it is none."""
    return QueryCheckpoint(path)


def _folder(path: Path | str) -> Path:
    parts = urlsplit(str(path))
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    if "://" in str(path):
        raise CheckpointRefused(
            f"the checkpoint {path} is not in a folder: only folders can be changed; copy it to a folder, change it"
            " there, and copy it back while the query is stopped"
        )
    return Path(path)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _entry(batch_id: int, text: str) -> _Entry:
    lines = text.splitlines()
    if len(lines) < 2 or lines[0] not in _VERSIONS:
        raise CheckpointRefused(
            f"micro-batch {batch_id} of the checkpoint has version {lines[0] if lines else 'none'}, which is not"
            f" understood: {', '.join(_VERSIONS)} is. Sources with names have another; begin with a new checkpoint"
        )
    return _Entry(batch_id, tuple(lines[:2]), tuple(lines[2:]))


# -- the lines


def _position_of(line: str) -> SourcePosition:
    form = _decoded(line)
    if form is None:
        return SourcePosition("other")
    if {"store", "t", "v"} <= form.keys():
        position = decode_position(form)
        found = {(position.names[key[0]], key[1]): offset for key, offset in position.offsets.items()}
        return SourcePosition("siltstone", dict(sorted(found.items())))
    try:
        by_topic = msgspec.convert(form, dict[str, dict[int, int]], strict=False)
    except msgspec.ValidationError:
        return SourcePosition("other")
    return SourcePosition("kafka", dict(sorted(_flat(by_topic))))


def _decoded(line: str) -> dict[str, Any] | None:
    try:
        form = json.loads(line) if line != _NOTHING else None
    except ValueError:
        return None
    return form if isinstance(form, dict) else None


def _flat(by_topic: Mapping[str, Mapping[int, int]]) -> Iterator[tuple[PartitionName, int]]:
    for topic, numbers in by_topic.items():
        for number, offset in numbers.items():
            yield (topic, number), offset


def _with_offsets(line: str, offsets: Mapping[PartitionName, int]) -> str:
    """Returns the line in its own form, with other offsets."""
    form = _decoded(line)
    assert form is not None, line
    if "store" in form:
        position = decode_position(form)
        moved = {key: offsets[position.names[key[0]], key[1]] for key in position.offsets}
        return _text(encode_position(msgspec.structs.replace(position, offsets=moved)))
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(offsets.items()):
        by_topic.setdefault(topic, {})[str(number)] = offset
    return _text(by_topic)


def _text(form: Any) -> str:
    return json.dumps(form, separators=(",", ":"))


def _partition(name: PartitionName | str) -> PartitionName:
    if isinstance(name, tuple):
        return name
    topic, _, number = name.rpartition("-")
    if not topic or not number.isdecimal():
        raise CheckpointRefused(f"{name!r} is no partition: write its topic and number, such as flights-0")
    return topic, int(number)


# -- the store


def _place(store: Path | str) -> Path | str:
    return store if "://" in str(store) else Path(store)


def _scan_of(offsets: Mapping[PartitionName, int], start: Bounds) -> ScanRequest:
    topics = {topic for topic, _ in offsets}
    return ScanRequest(
        assigned={name: tuple(number for topic, number in offsets if topic == name) for name in topics},
        start=start,
        tail=Tail.AUTO,
        lease_ms=0,
    )


def _offsets_at(source: MaintenanceContext, offsets: Mapping[PartitionName, int], to: datetime) -> Offsets:
    start = scan_request("any", start=to).start
    return {each.of.key: each.start_offset for each in plan_scan(source, _scan_of(offsets, start)).cuts}


def _check(source: MaintenanceContext, offsets: Mapping[PartitionName, int]) -> None:
    """Raises DataLost and OffsetBeyondEnd for offsets that the store does not have."""
    named = {each: Bound(BoundKind.OFFSET, offset) for each, offset in offsets.items()}
    plan_scan(source, _scan_of(offsets, Bounds(None, named)))


def _named_by_ids(image: ImageView, offsets: Mapping[PartitionName, int]) -> StreamPosition:
    ids: dict[str, str] = {}
    for topic, _ in offsets:
        topic_id = image.topic_ids.get(topic)
        if topic_id is None:
            raise TopicNotThere(f"the store has no topic {topic!r}, from which the query has read")
        ids[topic] = topic_id
    return StreamPosition(
        store_id_of(image) or "",
        {topic_id: topic for topic, topic_id in ids.items()},
        {(ids[topic], number): offset for (topic, number), offset in offsets.items()},
    )


def _runs_here(folder: Path) -> bool:
    """Returns whether a query of this process's Spark has the checkpoint."""
    if "pyspark" not in sys.modules:
        return False
    from siltstone.spark.starting import active_context  # noqa: PLC0415  imports pyspark

    if active_context() is None:
        return False
    from pyspark.sql import SparkSession  # noqa: PLC0415

    active = SparkSession.builder.getOrCreate().streams.active
    roots = [each._jsq.streamingQuery().resolvedCheckpointRoot() for each in active]
    return any(Path(unquote(urlsplit(root).path)).resolve() == folder.resolve() for root in roots)
