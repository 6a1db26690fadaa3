"""Fetching the index of a stream set object or stream object: one read of its tail, at most one more."""

from siltstone.model.limits import INDEX_BYTES_MAX, TAIL_READ_BYTES
from siltstone.object_formats.block_index import BlockIndex, DamagedIndex
from siltstone.object_formats.footer import DamagedFooter
from siltstone.object_formats.object_layout import IndexLiesBefore, index_of_tail, verified_index
from siltstone.object_store.port import ObjectStore


def read_index(store: ObjectStore, key: str, size_bytes: int) -> BlockIndex:
    """The verified index of the object, whose size the metadata tells.

    Raises ObjectNotFound, ObjectTruncated, DamagedFooter, DamagedIndex, and what the store raises.
    """
    tail = store.get_range(key, max(0, size_bytes - TAIL_READ_BYTES), size_bytes)
    try:
        found = index_of_tail(tail, size_bytes)
        if isinstance(found, IndexLiesBefore):
            _refuse_absurd_length(found)
            return verified_index(store.get_range(key, found.position, found.end), found.footer)
        return found
    except (DamagedFooter, DamagedIndex) as damage:
        raise type(damage)(f"{key}: {damage}") from damage


def _refuse_absurd_length(found: IndexLiesBefore) -> None:
    """Before anything is allocated for it."""
    index_bytes = found.end - found.position
    if index_bytes > INDEX_BYTES_MAX:
        raise DamagedIndex(f"it claims an index of {index_bytes} bytes, more than {INDEX_BYTES_MAX}")
