"""Writes one object of a load: staged record batches get their offsets and their leader epoch, both outside of Kafka's
CRC, and become blocks. An object that is larger than PART_BYTES is a multipart upload, so its bytes are never all in
memory: only a part of the manifest, at most STAGED_BYTES, and the bytes that are not uploaded yet.
"""

from contextlib import suppress

from siltstone.kafka_client.consuming import refuse_wrong_checksum, whole_batches
from siltstone.kafka_protocol.batch_errors import BatchChecksumWrong
from siltstone.kafka_protocol.batch_header import (
    BatchHeader,
    patch_log_append_time,
    patch_offset_and_epoch,
)
from siltstone.metadata.commands import NewObject
from siltstone.model.buffers import Buffers
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import BLOCK_SIZE_BYTES, MIB
from siltstone.model.objects import object_key
from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.batch_frame import encode_frame_header
from siltstone.object_formats.object_layout import ObjectBuilder, ranges_of_entries
from siltstone.object_store.port import MultipartUpload, ObjectStore, UploadedPart
from siltstone.sinking.failures import ManifestDamaged
from siltstone.sinking.load_plan import LoadedRun, PlannedLoadObject
from siltstone.sinking.manifest import SinkManifest
from siltstone.sinking.staging import StagedPart

PART_BYTES = 16 * MIB
"""With parts of this size an object may have 160 GiB; a load cuts objects far below that."""


class Upload:
    """The bytes of one object on their way to its bucket: one put, or a multipart upload if there are several parts."""

    def __init__(self, store: ObjectStore, key: str) -> None:
        self._store = store
        self._key = key
        self._multipart: MultipartUpload | None = None
        self._parts: list[UploadedPart] = []
        self._position = 0

    def send(self, buffers: Buffers) -> None:
        if self._multipart is None:
            self._multipart = self._store.start_multipart(self._key)
        number = len(self._parts) + 1
        self._parts.append(self._store.upload_part(self._multipart, number, self._position, buffers))
        self._position += sum(map(len, buffers))

    def finish(self, last: Buffers) -> None:
        if self._multipart is None:
            self._store.put(self._key, last)
            return
        self.send(last)
        self._store.complete_multipart(self._multipart, self._parts)

    def abort(self) -> None:
        if self._multipart is not None:
            with suppress(SiltstoneError):  # the sweep aborts it later
                self._store.abort_multipart(self._multipart)


def write_load_object(
    planned: PlannedLoadObject,
    object_id: int,
    manifest: SinkManifest,
    staged: ObjectStore,
    target: ObjectStore,
    now_ms: int,
    part_bytes: int = PART_BYTES,
    block_bytes: int = BLOCK_SIZE_BYTES,
) -> NewObject:
    """Copies the parts from the bucket ``staged`` into the object in the bucket ``target``. Raises ManifestDamaged, and
    what the buckets raise."""
    upload = Upload(target, object_key(object_id))
    builder = ObjectBuilder(block_bytes)
    try:
        for run in planned.runs:
            offset = run.start_offset
            for part in run.parts:
                offset = _copy_part(builder, run, part, manifest.bytes_of(staged, part), offset, now_ms)
                if builder.closed_bytes >= part_bytes:
                    upload.send(builder.take())
        encoded = builder.finish()
        upload.finish(encoded.buffers)
    except BaseException:
        upload.abort()
        raise
    return NewObject(object_id, encoded.size_bytes, ranges_of_entries(encoded.entries, object_id))


def _copy_part(
    builder: ObjectBuilder, run: LoadedRun, part: StagedPart, data: bytes, offset: int, now_ms: int
) -> int:
    """Adds the record batches of a part; returns the offset after them. The CRC of each batch is checked, because no
    broker will check it. Raises ManifestDamaged."""
    batches = memoryview(bytearray(data))
    size_bytes, first = 0, offset
    for header, batch in whole_batches(batches):
        try:
            refuse_wrong_checksum(header, batch)
        except BatchChecksumWrong as wrong:
            raise ManifestDamaged(f"a part of the staged object {part.key or 'manifest'}: {wrong}") from wrong
        assert isinstance(batch, memoryview)
        patch_offset_and_epoch(batch, offset, run.epoch)
        if run.has_append_time:
            patch_log_append_time(batch, now_ms)
        count = header.last_offset_delta + 1
        smallest_ms, largest_ms = (now_ms, now_ms) if run.has_append_time else _times(header)
        added = RecordBatch(
            run.stream_id,
            run.epoch,
            offset,
            offset + count,
            header.record_count,
            smallest_ms,
            largest_ms,
            batch,
        )
        builder.append(added, encode_frame_header(added))
        offset += count
        size_bytes += len(batch)
    if (size_bytes, offset - first) != (part.size_bytes, part.record_count):
        raise ManifestDamaged(
            f"a part of the staged object {part.key or 'manifest'} has {size_bytes} bytes and {offset - first} records,"
            f" and was staged with {part.size_bytes} and {part.record_count}"
        )
    return offset


def _times(header: BatchHeader) -> tuple[int, int]:
    """Returns the smallest and the largest timestamp, as a broker takes them from the header."""
    return min(header.base_timestamp_ms, header.max_timestamp_ms), header.max_timestamp_ms
