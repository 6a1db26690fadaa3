"""(g) Stream object compaction: what passes through our process, and how long it takes, in a folder and on a real S3
server. Bytes are counted twice: by the tasks, and by the clients of the stores, which count indexes as well.

*Large*: stream objects as uploads make them, each a part by itself. *Small*: what stream set objects leave behind when
they are split by age, below the 5 MiB that a part must have. In a folder the large ones are copied against a loop that
reads the same objects and writes one file for each stream, with an fsync.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from benchmarks.support.compacting import compact
from benchmarks.support.filling import fill
from benchmarks.support.pairs import Pair, timed
from benchmarks.support.places import folder, store_settings
from benchmarks.support.report import Row, at_least, at_most
from siltstone.carrying.pipeline import running
from siltstone.carrying.pipeline.kind import Budget, Scope
from siltstone.carrying.pipeline.running import RunReport
from siltstone.carrying.pipeline.watch import Watch
from siltstone.maintenance.stream_object_compaction.kind import StreamObjectCompaction
from siltstone.model.limits import GIB, MIB
from siltstone.model.objects import ObjectKind
from siltstone.object_store.retrying import StoreStatistics
from siltstone.offline.opening.store import Store, open_store
from siltstone.offline.settings import CompactionSettings, StreamObjectCompactionSettings
from siltstone.offline.tasks.runner import InProcessRunner
from siltstone.offline.tasks.source_bytes import store_at
from siltstone.server.settings.node import NodeSettings
from support.engine.s3_server import running_s3_server

ROUNDS = 3
STREAMS = 4
FOLDER_BYTES = 1 * GIB
S3_BYTES = 256 * MIB
SMALL_STREAMS = 32
EVERYTHING = StreamObjectCompactionSettings(settled_ms=0, largest_share_max=1.0)
TITLE = "(g) stream object compaction, range copy inside the store"


class Merged(msgspec.Struct, frozen=True):
    """``through_bytes``: all bytes that the clients of the stores read and wrote."""

    data_bytes: int
    objects: int
    bytes_read: int
    through_bytes: int
    seconds: float

    @property
    def share_read(self) -> float:
        return 100 * self.bytes_read / self.data_bytes

    @property
    def share_through(self) -> float:
        return 100 * self.through_bytes / self.data_bytes


def run() -> list[Row]:
    return [*_in_a_folder(), *_on_s3()]


def _in_a_folder() -> list[Row]:
    pair = Pair([], [])
    for number in range(ROUNDS + 1):
        with folder() as place:
            settings = _filled_with_large(place, FOLDER_BYTES)
            their = timed(lambda: _copy_loop(place, settings))  # noqa: B023  called here
            found: list[Merged] = []
            our = timed(lambda: found.append(_merged(settings)))  # noqa: B023
        if number:
            pair.ours.append(our)
            pair.theirs.append(their)
    return [*_shares("folder, large", found[0]), _speed(pair)]


def _on_s3() -> Iterator[Row]:
    with running_s3_server() as server:
        for name, filled in (("large", _filled_with_large), ("small", _filled_with_small)):
            with folder() as place:
                yield from _shares(f"S3, {name}", _merged(filled(place, S3_BYTES, server.new_url())))


def _shares(name: str, merged: Merged) -> list[Row]:
    what = f"{merged.objects} objects, {merged.data_bytes / 1e6:,.0f} MB in {merged.seconds:.1f} s"
    through = Row(
        f"{name}: all bytes through our process", f"{merged.share_through:.2f} %", "indexes counted"
    )
    if name.endswith("small"):
        return [Row(f"{name}: data bytes through our process", f"{merged.share_read:.2f} %", what), through]
    return [at_most(f"{name}: data bytes through our process", merged.share_read, 0, " %", what), through]


def _speed(pair: Pair) -> Row:
    speed = FOLDER_BYTES / 1e6 / pair.their_median().wall_s
    return at_least("folder, large: against a bare loop", pair.speed_ratio, 0.6, "×", f"{speed:,.0f} MB/s")


def _merged(settings: NodeSettings) -> Merged:
    with open_store(settings) as store:
        objects = _stream_objects(store)
        before = _counted(store)
        report = _compacted(store)
        counted = _counted(store) - before
        assert report.is_well and len(_stream_objects(store)) < len(objects), report
    return Merged(
        data_bytes=sum(objects.values()),
        objects=len(objects),
        bytes_read=sum(unit.bytes_read for unit in report.units),
        through_bytes=counted.bytes_read + counted.bytes_written,
        seconds=report.seconds,
    )


def _compacted(store: Store) -> RunReport:
    kind = StreamObjectCompaction(EVERYTHING)
    runner = InProcessRunner(os.cpu_count() or 1)
    watch = Watch(kind.name, store.context.clock)
    return running.run(store.context, kind, lambda: runner, Scope(), Budget(), watch)


def _counted(store: Store) -> StoreStatistics:
    """Returns the bytes of the driver's client and of that of the tasks, which open the bucket by its URL."""
    tasks = [store_at(url).statistics() for url in store.buckets.urls.values()]
    return sum(tasks, store.buckets.statistics())


def _stream_objects(store: Store) -> dict[int, int]:
    """Returns the data bytes of each object by its id."""
    objects = store.metadata.refresh().objects.values()
    return {
        each.object_id: sum(held.size_bytes for held in each.ranges)
        for each in objects
        if each.kind is ObjectKind.STREAM_OBJECT and each.ranges
    }


def _copy_loop(place: Path, settings: NodeSettings) -> None:
    """Makes a file for each stream, with its objects one after another."""
    with open_store(settings) as store:
        image = store.metadata.image
        streams = [[held.object_id for held in stream.ranges] for stream in image.streams.values()]
    found = {int(path.name): path for path in (place / "store" / "bucket").rglob("0*") if path.is_file()}
    for number, object_ids in enumerate(streams):
        _concatenate([found[each] for each in object_ids], place / f"stream-{number}")


def _concatenate(sources: Sequence[Path], target: Path) -> None:
    with target.open("wb", buffering=0) as whole:
        for path in sources:
            with path.open("rb", buffering=0) as source:
                while chunk := source.read(16 * MIB):
                    whole.write(chunk)
        os.fsync(whole.fileno())


def _filled_with_large(place: Path, size_bytes: int, url: str = "") -> NodeSettings:
    """Uploads cache blocks in which each stream has 17 MiB: more than the split size, so each upload makes stream
    objects."""
    settings = _settings(place, url, STREAMS * 17)
    fill(settings, STREAMS, size_bytes)
    return settings


def _filled_with_small(place: Path, size_bytes: int, url: str = "") -> NodeSettings:
    """Makes stream set objects with 2 MiB of each stream, and splits them one after another."""
    settings = _settings(place, url, SMALL_STREAMS * 2)
    fill(settings, SMALL_STREAMS, size_bytes)
    one_by_one = CompactionSettings(force_split_age_ms=0, sources_max=1)
    with open_store(settings) as store:
        while compact(store, InProcessRunner(), one_by_one).done:
            pass
    return settings


def _settings(place: Path, url: str, block_mib: int) -> NodeSettings:
    flags = {"engine__upload__cache_block_bytes_max": f"{block_mib}MiB"}
    return store_settings(place / "store", **flags, **({"buckets__0": url} if url else {}))
