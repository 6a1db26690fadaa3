"""The manifest of a batch: all its parts in the order in which they are written, and the bytes of the small parts that
tasks put into their reports. The manifest is one object; the sink's record names it with its CRC-32C, so an intent is
finished with exactly these parts.

The parts are in the order of Spark's tasks, so the order of rows within a task is kept.
"""

import logging
from collections.abc import Iterable, Iterator
from itertools import groupby

import msgspec

from siltstone.foundation.crc32c import crc32c
from siltstone.metadata.sinks import STAGING_PREFIX
from siltstone.model.errors import SiltstoneError
from siltstone.object_store.port import ObjectNotFound, ObjectStore, ObjectTruncated
from siltstone.runtime.randomness import Random, random_token
from siltstone.sinking.failures import ManifestDamaged
from siltstone.sinking.staging import StagedPart, TaskReport

log = logging.getLogger(__name__)

MANIFEST_VERSION = 1


class SinkManifest(msgspec.Struct, frozen=True, array_like=True):
    version: int
    parts: tuple[StagedPart, ...]
    inline: bytes

    def streams(self) -> Iterator[tuple[int, list[StagedPart]]]:
        """Yields each stream id with its parts, in order."""
        ordered = sorted(self.parts, key=lambda part: part.stream_id)  # stable
        for stream_id, parts in groupby(ordered, key=lambda part: part.stream_id):
            yield stream_id, list(parts)

    def bytes_of(self, store: ObjectStore, part: StagedPart) -> bytes:
        """Returns the record batches of a part. Raises ManifestDamaged, and what the bucket raises."""
        end = part.position + part.size_bytes
        if not part.key:
            return self.inline[part.position : end]
        try:
            return store.get_range(part.key, part.position, end)
        except ObjectNotFound as missing:
            raise ManifestDamaged(
                f"the staged object {part.key} is gone; a sweep deletes it a day after its batch"
            ) from missing
        except ObjectTruncated as short:
            raise ManifestDamaged(
                f"the staged object {part.key} is shorter than its part: {short}"
            ) from short


def manifest_of(reports: Iterable[TaskReport]) -> SinkManifest:
    parts: list[StagedPart] = []
    inline = bytearray()
    for report in sorted(reports, key=lambda each: each.task_number):
        for part in report.parts:
            moved = part if part.key else msgspec.structs.replace(part, position=part.position + len(inline))
            parts.append(moved)
        inline += report.inline
    return SinkManifest(MANIFEST_VERSION, tuple(parts), bytes(inline))


def put_manifest(store: ObjectStore, folder: str, manifest: SinkManifest, rng: Random) -> tuple[str, int]:
    """Writes the manifest below ``folder``; returns its key and CRC. Raises what the bucket raises."""
    data = msgspec.msgpack.encode(manifest)
    key = f"{folder}manifest-{random_token(rng)}"
    store.put_if_absent(key, [data])
    return key, crc32c([data])


def get_manifest(store: ObjectStore, key: str, crc: int) -> SinkManifest:
    """Raises ManifestDamaged, and what the bucket raises."""
    try:
        size = store.head(key).size_bytes
        data = store.get_range(key, 0, size)
    except ObjectNotFound as missing:
        raise ManifestDamaged(
            f"the manifest {key} is gone from the bucket; restore it, or abandon the batch"
        ) from missing
    if crc32c([data]) != crc:
        raise ManifestDamaged(
            f"the manifest {key} has CRC {crc32c([data]):08x}, and its record has {crc:08x}"
        )
    fields = msgspec.msgpack.decode(data)
    if fields[0] != MANIFEST_VERSION:
        raise ManifestDamaged(
            f"the manifest {key} has version {fields[0]}; this program reads {MANIFEST_VERSION}"
        )
    return msgspec.convert(fields, SinkManifest)


def delete_staged(store: ObjectStore, keys: Iterable[str]) -> None:
    """Deletes staged objects; what cannot be deleted now is left to the sweep."""
    wanted = sorted({key for key in keys if key.startswith(STAGING_PREFIX)})
    if wanted:
        try:
            store.delete(wanted)
        except SiltstoneError as trouble:
            log.info("%d staged objects could not be deleted; the sweep does it: %s", len(wanted), trouble)
