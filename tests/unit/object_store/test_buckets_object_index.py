import pytest

from siltstone.model.limits import TAIL_READ_BYTES
from siltstone.object_formats.block_index import DamagedIndex
from siltstone.object_formats.object_layout import DamagedFooter
from siltstone.object_store.buckets import read_index
from siltstone.object_store.port import ObjectNotFound, ObjectTruncated
from siltstone.runtime.clock import ManualClock
from support.engine.batches import batch, build_object, object_bytes
from support.engine.committed_world import CountingStore

KEY = "00/objects/1"


def store_with(data: bytes) -> CountingStore:
    store = CountingStore(ManualClock())
    store.put(KEY, [data])
    return store


@pytest.mark.parametrize(("streams", "reads"), [(0, 1), (1, 1), (909, 1), (910, 2), (3000, 2)])
def test_one_read_finds_the_index_and_a_second_one_when_it_is_large(streams, reads):
    built = build_object(batch(stream, 5) for stream in range(streams))
    store = store_with(b"".join(built.buffers))
    assert list(read_index(store, KEY, built.size_bytes)) == built.entries
    assert len(store.gets) == reads
    assert sum(end - start for _, start, end in store.gets) <= reads * max(TAIL_READ_BYTES, 3000 * 72)


def test_a_small_object_is_read_whole_and_not_before_its_beginning():
    data = object_bytes([batch()])
    store = store_with(data)
    assert len(read_index(store, KEY, len(data))) == 1
    assert store.gets == [(KEY, 0, len(data))]


def test_a_missing_object():
    with pytest.raises(ObjectNotFound):
        read_index(CountingStore(ManualClock()), KEY, 100)


def test_an_object_shorter_than_the_metadata_says():
    data = object_bytes([batch()])
    with pytest.raises(ObjectTruncated):
        read_index(store_with(data), KEY, len(data) + 1)


@pytest.mark.parametrize("size", [0, 10, 63, 64, 100])
def test_an_object_longer_than_the_metadata_says_names_the_key(size):
    with pytest.raises(DamagedFooter, match=KEY):
        read_index(store_with(object_bytes([batch()])), KEY, size)


@pytest.mark.parametrize("streams", [1, 1000])
def test_a_damaged_index_names_the_key(streams):
    data = bytearray(object_bytes(batch(stream) for stream in range(streams)))
    data[-64 - 10] ^= 1
    with pytest.raises(DamagedIndex, match=f"{KEY}: the checksum of the index"):
        read_index(store_with(bytes(data)), KEY, len(data))


def test_gc13_an_absurd_length_is_refused_before_anything_is_read_for_it():
    """A footer with a right checksum, of an object that says it is nearly all index."""
    data = object_bytes(batch(stream) for stream in range(1000))
    store = store_with(data)
    with pytest.raises(DamagedIndex, match=f"{KEY}: its footer claims an index of 72000 bytes"):
        read_index(store, KEY, len(data), 72 * 999)
    assert len(store.gets) == 1
    assert len(read_index(store, KEY, len(data), 72 * 1000)) == 1000
