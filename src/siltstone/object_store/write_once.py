"""Every object is written once (rule 11): no put replaces an object, not even that of a process with an older copy of
the metadata.

A caller may put the same bytes to a key again, as a task that Spark runs twice does. So a put that finds an object
compares its bytes with those to be written: equal bytes are a success, other bytes are an error, and the object stays.
"""

from collections.abc import Callable, Iterator

from siltstone.model.buffers import Buffers, total_bytes
from siltstone.object_store.port import ObjectAlreadyExists, ObjectNotFound, ObjectStore, ObjectSummary

COMPARED_BYTES_MAX = 8 * 2**20
"""An object is compared in ranges of at most this many bytes."""


def put_once(store: ObjectStore, key: str, buffers: Buffers) -> None:
    """Puts the object with the store's ``put_if_absent``. Raises ObjectAlreadyExists when an object with other bytes
    has the key, and what the store raises."""
    try:
        store.put_if_absent(key, buffers)
    except ObjectAlreadyExists:
        if not has_content(store.head, store.get_range, key, buffers):
            raise ObjectAlreadyExists(
                f"object {key} in {store.url} exists with other bytes and was not replaced: another process has used "
                "the same object id, so the metadata of one of the two is an older copy"
            ) from None


def has_content(
    head: Callable[[str], ObjectSummary],
    get_range: Callable[[str, int, int], bytes],
    key: str,
    buffers: Buffers,
) -> bool:
    """Returns whether the object at the key has exactly the bytes of the buffers. Raises what the two requests
    raise."""
    try:
        if head(key).size_bytes != total_bytes(buffers):
            return False
        position = 0
        for piece in _pieces(buffers):
            end = position + len(piece)
            if memoryview(get_range(key, position, end)) != piece:
                return False
            position = end
    except ObjectNotFound:
        return False
    return True


def _pieces(buffers: Buffers) -> Iterator[memoryview]:
    """Yields the bytes of the buffers in order, small buffers joined and large ones cut to COMPARED_BYTES_MAX."""
    small: list[memoryview] = []
    size_bytes = 0
    for buffer in buffers:
        view = memoryview(buffer).cast("B")
        for start in range(0, len(view), COMPARED_BYTES_MAX):
            part = view[start : start + COMPARED_BYTES_MAX]
            if size_bytes + len(part) > COMPARED_BYTES_MAX:
                yield memoryview(b"".join(small))
                small, size_bytes = [], 0
            small.append(part)
            size_bytes += len(part)
    if small:
        yield memoryview(b"".join(small))
