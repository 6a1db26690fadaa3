"""Reads the indexes of many objects side by side."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from siltstone.metadata.entities import ObjectMetadata
from siltstone.model.errors import SiltstoneError
from siltstone.model.objects import object_key
from siltstone.object_store.buckets import Buckets, read_index
from siltstone.offline.blocks.columns import LeftOut, Source
from siltstone.runtime.tasks import OnProgress

THREADS_MAX = 16
"""A thread waits for one small request at a time."""


def read_indexes(
    buckets: Buckets, objects: Sequence[ObjectMetadata], on_progress: OnProgress | None = None
) -> tuple[list[Source], list[LeftOut]]:
    """Returns the objects whose index could be read as sources, in the given order, and the other objects, each with
    the reason (T08). ``on_progress`` is called with (indexes read, objects in all)."""

    def attempt(metadata: ObjectMetadata) -> Source | LeftOut:
        try:
            key = object_key(metadata.object_id)
            copies = buckets.copies(metadata.bucket_ids, f"the index of object {metadata.object_id}")
            return Source(metadata, copies.read(lambda store: read_index(store, key, metadata.size_bytes)))
        except SiltstoneError as trouble:
            return LeftOut(metadata.object_id, f"its index cannot be read: {trouble}", True)

    sources: list[Source] = []
    left_out: list[LeftOut] = []
    with ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="index") as pool:
        for done, outcome in enumerate(pool.map(attempt, objects), start=1):
            if isinstance(outcome, Source):
                sources.append(outcome)
            else:
                left_out.append(outcome)
            if on_progress is not None:
                on_progress(done, len(objects))
    return sources, left_out
