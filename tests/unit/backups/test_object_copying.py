"""Objects are copied byte for byte, once, from any bucket that has them."""

import pytest

from siltstone.backups.object_copying import copy_objects
from siltstone.metadata.entities import ObjectMetadata
from siltstone.model.limits import READ_REQUEST_BYTES_MAX
from siltstone.model.objects import ObjectKind, ObjectState, object_key
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import ObjectStore, StoreTransient
from siltstone.runtime.clock import ManualClock


def bucket(name: str, *contents: tuple[int, bytes]) -> MemoryStore:
    made = MemoryStore(ManualClock(), name)
    for object_id, content in contents:
        made.put(object_key(object_id), [content])
    return made


def one(object_id: int, size_bytes: int) -> ObjectMetadata:
    return ObjectMetadata(
        object_id, ObjectState.COMMITTED, 0, ObjectKind.STREAM_OBJECT, size_bytes, 0, 1, 0, 1, ()
    )


def content_of(store: ObjectStore, object_id: int) -> bytes:
    key = object_key(object_id)
    return store.get_range(key, 0, store.head(key).size_bytes)


@pytest.mark.parametrize(
    "size_bytes", [1, READ_REQUEST_BYTES_MAX, READ_REQUEST_BYTES_MAX + 1, 2 * READ_REQUEST_BYTES_MAX]
)
def test_a_copy_has_the_bytes_of_the_object(size_bytes: int) -> None:
    content = bytes(number % 251 for number in range(1_000)) * (size_bytes // 1_000 + 1)
    source, target = bucket("source", (7, content[:size_bytes])), bucket("target")
    done = copy_objects([one(7, size_bytes)], lambda _: [source], target)
    assert (done.count, done.size_bytes, done.copied_bytes, done.missing) == (1, size_bytes, size_bytes, ())
    assert content_of(target, 7) == content[:size_bytes]
    assert not list(target.list_multipart())


def test_what_is_there_is_not_copied_again() -> None:
    source, target = bucket("source", (1, b"one"), (2, b"two!")), bucket("target", (1, b"one"))
    seen: list[tuple[int, int]] = []
    done = copy_objects([one(1, 3), one(2, 4)], lambda _: [source], target, lambda *now: seen.append(now))
    assert (done.count, done.size_bytes, done.copied_bytes) == (2, 7, 4)
    assert seen == [(1, 2), (2, 2)]


class Broken(MemoryStore):
    def get_range(self, key: str, start: int, end: int) -> bytes:
        raise StoreTransient("out of order")


def test_any_bucket_that_has_the_object_does() -> None:
    empty, whole, broken = bucket("empty"), bucket("whole", (1, b"one")), Broken(ManualClock(), "broken")
    target = bucket("target")
    done = copy_objects([one(1, 3)], lambda _: [broken, empty, whole], target)
    assert done.copied_bytes == 3 and content_of(target, 1) == b"one"
    assert copy_objects([one(2, 3)], lambda _: [empty, whole], target).missing == (2,)
    with pytest.raises(StoreTransient):
        copy_objects([one(2, 3)], lambda _: [empty, broken], target)


def test_a_large_object_that_breaks_off_leaves_no_upload() -> None:
    size_bytes = READ_REQUEST_BYTES_MAX + 1
    source, target = bucket("source", (1, bytes(READ_REQUEST_BYTES_MAX))), bucket("target")
    with pytest.raises(Exception, match="was requested"):
        copy_objects([one(1, size_bytes)], lambda _: [source], target)
    assert not list(target.list()) and not list(target.list_multipart())
