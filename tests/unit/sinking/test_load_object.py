"""One object of a load: the offsets, the epochs and the times of its record batches, and the parts that are refused."""

import pytest
from msgspec.structs import replace

from siltstone.kafka_protocol.batch_header import checksum_of, read_batch_header
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record, iterate_records
from siltstone.metadata.commands import NewObject
from siltstone.model.objects import ObjectRange, object_key
from siltstone.model.record_batch import RecordBatch
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import StoreDenied
from siltstone.runtime.clock import ManualClock
from siltstone.sinking.failures import ManifestDamaged
from siltstone.sinking.load_object import write_load_object
from siltstone.sinking.load_plan import LoadedRun, PlannedLoadObject
from siltstone.sinking.manifest import SinkManifest
from siltstone.sinking.staging import StagedPart
from support.engine.objects import read_object

NOW_MS = 1_700_000_000_000


class World:
    def __init__(self) -> None:
        self.staged, self.target = MemoryStore(ManualClock()), MemoryStore(ManualClock())
        self.inline = b""

    def part(self, stream_id: int, *counts: int, key: str = "") -> StagedPart:
        """Makes record batches with these numbers of records."""
        batches = [
            build_batch([Record(timestamp_ms=1_000 + n, key=None, value=b"v%d" % n) for n in range(count)])
            for count in counts
        ]
        data = b"".join(map(bytes, batches))
        part = StagedPart("t", "0f" * 16, 0, stream_id, key, 0, len(data), sum(counts))
        if key:
            self.staged.put(key, [data])
            return part
        self.inline += data
        return replace(part, position=len(self.inline) - len(data))

    def write(
        self, *runs: LoadedRun, part_bytes: int = 1 << 20, is_set: bool = True, **sizes: int
    ) -> NewObject:
        planned = PlannedLoadObject(is_set, runs)
        manifest = SinkManifest(1, (), self.inline)
        return write_load_object(planned, 7, manifest, self.staged, self.target, NOW_MS, part_bytes, **sizes)

    def batches(self) -> list[RecordBatch]:
        key = object_key(7)
        data = self.target.get_range(key, 0, self.target.head(key).size_bytes)
        return read_object(data)


def run(stream_id: int, start: int, *parts: StagedPart, append_time: bool = False) -> LoadedRun:
    return LoadedRun(stream_id, 4, start, append_time, parts)


@pytest.mark.parametrize("part_bytes", [1 << 20, 1])
def test_record_batches_get_their_offsets_and_the_epoch_and_stay_what_they_are(part_bytes: int) -> None:
    world = World()
    runs = (
        run(3, 100, world.part(3, 5, 2, key="staging/a"), world.part(3, 4)),
        run(9, 0, world.part(9, 1)),
    )
    written = world.write(*runs, part_bytes=part_bytes)
    found = world.batches()
    assert [(each.stream_id, each.base_offset, each.end_offset, each.stream_epoch) for each in found] == [
        (3, 100, 105, 4), (3, 105, 107, 4), (3, 107, 111, 4), (9, 0, 1, 4),
    ]  # fmt: skip
    for batch in found:
        header = read_batch_header(batch.payload)
        assert (header.base_offset, header.partition_leader_epoch) == (batch.base_offset, 4)
        assert header.crc == checksum_of(batch.payload), "the CRC of the task"
        assert (batch.smallest_timestamp_ms, batch.record_count) == (1_000, header.record_count)
        assert next(iterate_records(bytes(batch.payload))).value == b"v0"
    size = world.target.head(object_key(7)).size_bytes
    assert written.size_bytes == size
    assert [(held.stream_id, held.start_offset, held.end_offset) for held in written.ranges] == [
        (3, 100, 111),
        (9, 0, 1),
    ]
    assert all(isinstance(held, ObjectRange) and held.object_id == 7 for held in written.ranges)
    assert written.ranges[0].largest_timestamp_ms == 1_004
    assert not [*world.target.list_multipart()]


def test_sw18_the_time_of_the_load_is_the_time_of_every_record() -> None:
    world = World()
    world.write(run(3, 0, world.part(3, 5), append_time=True))
    (batch,) = world.batches()
    header = read_batch_header(batch.payload)
    assert (header.is_log_append_time, header.max_timestamp_ms) == (True, NOW_MS)
    assert (batch.smallest_timestamp_ms, batch.largest_timestamp_ms) == (NOW_MS, NOW_MS)
    assert header.crc == checksum_of(batch.payload)


def test_what_was_staged_otherwise_is_refused_and_no_object_is_left() -> None:
    world = World()
    part = world.part(3, 5, 5, key="staging/a")
    data = bytearray(world.staged.get_range("staging/a", 0, part.size_bytes))
    data[70] ^= 1
    world.staged.delete(["staging/a"])
    world.staged.put("staging/a", [bytes(data)])
    with pytest.raises(ManifestDamaged, match=r"staging/a.*CRC"):
        world.write(run(3, 0, part), part_bytes=1)
    good = world.part(3, 5, 5)
    with pytest.raises(ManifestDamaged, match=r"has .* bytes and 10 records, and was staged with"):
        world.write(run(3, 0, replace(good, record_count=9)))
    with pytest.raises(ManifestDamaged, match=r"has .* bytes and 5 records"):
        world.write(run(3, 0, replace(good, size_bytes=good.size_bytes - 1)))
    with pytest.raises(ManifestDamaged, match="staging/gone is gone"):
        world.write(run(3, 0, replace(part, key="staging/gone")))
    assert not [*world.target.list("")] and not [*world.target.list_multipart()]


def test_an_upload_that_a_bucket_refuses_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    parts = [world.part(3, 400), world.part(3, 400)]

    def refused(*_: object) -> None:
        raise StoreDenied("read only")

    monkeypatch.setattr(world.target, "complete_multipart", refused)
    with pytest.raises(StoreDenied):
        world.write(run(3, 0, *parts), part_bytes=1, block_bytes=10)
    assert not [*world.target.list_multipart()]
