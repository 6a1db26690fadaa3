"""A whole store in memory for sweeps and checks: metadata, buckets that tell what was asked of them, real objects.

Everything in the metadata came there by a command, so it is a state a store can be in; damage is done to the buckets.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random

from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import (
    CloseStream,
    CommitCompaction,
    CommitUpload,
    CreateStream,
    DeleteStream,
    FinishJob,
    NewObject,
    OpenStream,
    PrepareObjects,
    RegisterNode,
    StartJob,
    TrimStream,
)
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.store.memory import MemoryLog
from siltstone.model.limits import HOUR_MS
from siltstone.model.objects import ObjectState, object_key
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.object_layout import ranges_of_entries
from siltstone.object_store.buckets import Buckets
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import MultipartUpload, ObjectStore, ObjectSummary, StoreDenied
from siltstone.offline.context import MaintenanceContext
from siltstone.runtime.clock import ManualClock
from support.engine.batches import batch, build_object
from support.engine.replacing import replace_object
from support.metadata.faulty_log import FaultyLog


class WatchedStore(MemoryStore):
    """``calls``: (name, detail) of each request. ``before`` and ``after`` hear (name, key) and may raise or change
    what is there. ``denied_keys`` cannot be deleted: those named with them are."""

    def __init__(self, clock: ManualClock, name: str = "watched") -> None:
        super().__init__(clock, name)
        self.calls: list[tuple[str, object]] = []
        self.before: Callable[[str, str], object] = lambda name, key: None
        self.after: Callable[[str, str], object] = lambda name, key: None
        self.denied_keys: set[str] = set()

    @property
    def counts(self) -> Counter[str]:
        return Counter(name for name, _ in self.calls)

    def details(self, name: str) -> list[object]:
        return [detail for called, detail in self.calls if called == name]

    def head(self, key: str) -> ObjectSummary:
        return self._watched("head", key, key, lambda: super(WatchedStore, self).head(key))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        get = super().get_range
        return self._watched("get_range", key, (key, start, end), lambda: get(key, start, end))

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectSummary]:
        listing = super().list
        return self._watched("list", "", prefix, lambda: listing(prefix, after))

    def delete(self, keys: Sequence[str]) -> None:
        delete = super().delete
        free = [key for key in keys if key not in self.denied_keys]
        self._watched("delete", keys[0] if keys else "", tuple(keys), lambda: delete(free))
        if len(free) < len(keys):
            raise StoreDenied(f"delete: {len(keys) - len(free)} keys are denied")

    def list_multipart(self) -> Iterator[MultipartUpload]:
        listing = super().list_multipart
        return self._watched("list_multipart", "", "", listing)

    def abort_multipart(self, upload: MultipartUpload) -> None:
        abort = super().abort_multipart
        self._watched("abort_multipart", upload.key, upload, lambda: abort(upload))

    def _watched(self, name: str, key: str, detail: object, call: Callable[[], object]):
        self.calls.append((name, detail))
        self.before(name, key)
        result = call()
        self.after(name, key)
        return result


class MaintainedStore:
    def __init__(self, bucket_ids: Iterable[int] = (0,)) -> None:
        self.clock = ManualClock()
        self.log = FaultyLog(MemoryLog())
        self.stores = {bucket_id: WatchedStore(self.clock, f"b{bucket_id}") for bucket_id in bucket_ids}
        self.context = self.another_context()
        self.metadata.execute(RegisterNode(0, "first", "nowhere"))

    def another_context(self, stores: Mapping[int, ObjectStore] | None = None) -> MaintenanceContext:
        """Returns the context of another process, or of one that sees a bucket in another way."""
        client = MetadataClient(self.log, self.clock, Random(1))
        return MaintenanceContext(client, Buckets(stores or self.stores), self.clock, Random(2))

    @property
    def metadata(self) -> MetadataClient:
        return self.context.metadata

    @property
    def image(self) -> MetadataImage:
        return self.metadata.refresh()

    @property
    def store(self) -> WatchedStore:
        return self.stores[0]

    # -- what a node and a compaction do -----------------------------------------------------------------

    def new_stream(self) -> int:
        stream_id = self.metadata.execute(CreateStream(0, 1))
        self.metadata.execute(OpenStream(0, 1, stream_id, 0))
        return stream_id

    def prepare(self, count: int = 1, bucket_id: int = 0, time_limit_ms: int = HOUR_MS) -> int:
        return self.metadata.execute(PrepareObjects(count, time_limit_ms, bucket_id, node_id=0, node_epoch=1))

    def put(self, object_id: int, batches: Iterable[RecordBatch], bucket_id: int = 0) -> NewObject:
        """Uploaded, not committed."""
        built = build_object(batches, block_size_bytes=200)
        self.stores[bucket_id].put(object_key(object_id), built.buffers)
        return NewObject(object_id, built.size_bytes, ranges_of_entries(built.entries, object_id))

    def commit(self, new: NewObject) -> None:
        self.metadata.execute(CommitUpload(0, 1, new))

    def upload(self, batches: Iterable[RecordBatch], bucket_id: int = 0, *, alone: bool = False) -> int:
        """A stream set object; with ``alone`` a stream object."""
        object_id = self.prepare(bucket_id=bucket_id)
        new = self.put(object_id, batches, bucket_id)
        self.metadata.execute(CommitUpload(0, 1, None, (new,)) if alone else CommitUpload(0, 1, new))
        return object_id

    def append(self, *stream_ids: int, batches: int = 3, payload_bytes: int = 60, bucket_id: int = 0) -> int:
        """Ten records in each batch, from the streams' ends on, in one stream set object."""
        ends = {each: self.image.streams[each].end_offset for each in sorted(stream_ids)}
        made = [
            batch(stream_id, end + 10 * number, 10, payload_bytes)
            for stream_id, end in ends.items()
            for number in range(batches)
        ]
        return self.upload(made, bucket_id)

    def compact(
        self, compacted: Sequence[int], batches: Sequence[RecordBatch], bucket_id: int = 0
    ) -> int | None:
        """Commits one stream set object in the place of others; of no batches, none."""
        job_id = self.metadata.execute(StartJob("compaction", "test", HOUR_MS))
        new = None
        if batches:
            first = self.metadata.execute(PrepareObjects(1, HOUR_MS, bucket_id, job_id=job_id))
            new = self.put(first, batches, bucket_id)
        self.metadata.execute(CommitCompaction(job_id, tuple(compacted), new))
        self.metadata.execute(FinishJob(job_id, True))
        return new and new.object_id

    def trim(self, stream_id: int, start_offset: int) -> None:
        self.metadata.execute(TrimStream(0, 1, stream_id, 0, start_offset))

    def delete_stream(self, stream_id: int) -> None:
        self.metadata.execute(CloseStream(0, 1, stream_id, 0))
        self.metadata.execute(DeleteStream(0, 1, stream_id, 0))

    def destroyed(self, count: int, bucket_id: int = 0) -> list[int]:
        """Objects that were prepared and uploaded and expire when the next sweep comes."""
        first = self.prepare(count, bucket_id, time_limit_ms=1)
        for object_id in range(first, first + count):
            self.stores[bucket_id].put(object_key(object_id), [b"given up"])
        self.clock.advance_ms(1)
        return list(range(first, first + count))

    # -- what happens to a bucket ------------------------------------------------------------------------

    def bucket_of(self, object_id: int) -> WatchedStore:
        return self.stores[self.image.objects[object_id].bucket_id]

    def bytes_of(self, object_id: int) -> bytes:
        store, key = self.bucket_of(object_id), object_key(object_id)
        return store._object(key).content

    def overwrite(self, object_id: int, content: bytes) -> None:
        replace_object(self.bucket_of(object_id), object_key(object_id), [content])

    def flip(self, object_id: int, position: int, mask: int = 0xFF) -> None:
        """Flips one byte, which is counted from the end if it is negative."""
        content = bytearray(self.bytes_of(object_id))
        content[position] ^= mask
        self.overwrite(object_id, bytes(content))

    def lose(self, object_id: int) -> None:
        MemoryStore.delete(self.bucket_of(object_id), [object_key(object_id)])

    def lose_key(self, key: str, bucket_id: int = 0) -> None:
        MemoryStore.delete(self.stores[bucket_id], [key])

    def keys(self, bucket_id: int = 0) -> set[str]:
        return {summary.key for summary in MemoryStore.list(self.stores[bucket_id])}

    def committed_keys(self, bucket_id: int = 0) -> set[str]:
        return {
            object_key(each.object_id)
            for each in self.image.objects.values()
            if each.state is ObjectState.COMMITTED and each.bucket_id == bucket_id
        }
