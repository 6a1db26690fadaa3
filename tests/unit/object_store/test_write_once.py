"""Comparing an object with what was to be written, in bounded pieces."""

import pytest

from siltstone.object_store import write_once
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import ObjectAlreadyExists
from siltstone.object_store.write_once import has_content, put_once
from siltstone.runtime.clock import ManualClock

KEY = "a5/objects/1"
CONTENT = bytes(range(50))


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    monkeypatch.setattr(write_once, "COMPARED_BYTES_MAX", 16)
    made = MemoryStore(ManualClock())
    made.put_if_absent(KEY, [CONTENT])
    return made


@pytest.mark.parametrize(
    "buffers",
    [
        [CONTENT],
        [CONTENT[:1], b"", CONTENT[1:17], bytearray(CONTENT[17:])],
        [memoryview(CONTENT[i : i + 1]) for i in range(50)],
    ],
)
def test_equal_bytes_are_a_success_and_read_in_pieces(bucket: MemoryStore, buffers: list) -> None:
    asked: list[int] = []

    def get_range(key: str, start: int, end: int) -> bytes:
        asked.append(end - start)
        return bucket.get_range(key, start, end)

    put_once(bucket, KEY, buffers)
    assert has_content(bucket.head, get_range, KEY, buffers)
    assert sum(asked) == 50
    assert max(asked) <= 16


@pytest.mark.parametrize("at", [0, 15, 16, 31, 49])
def test_one_byte_that_differs_anywhere_is_seen(bucket: MemoryStore, at: int) -> None:
    other = bytearray(CONTENT)
    other[at] ^= 1
    with pytest.raises(ObjectAlreadyExists, match="was not replaced"):
        put_once(bucket, KEY, [other[:20], other[20:]])
    assert bucket.get_range(KEY, 0, 50) == CONTENT


@pytest.mark.parametrize("content", [CONTENT[:-1], CONTENT + b"!", b""])
def test_another_size_is_another_object(bucket: MemoryStore, content: bytes) -> None:
    assert not has_content(bucket.head, bucket.get_range, KEY, [content])


def test_an_object_that_is_gone_has_no_content(bucket: MemoryStore) -> None:
    assert not has_content(bucket.head, bucket.get_range, "a5/objects/2", [b""])
