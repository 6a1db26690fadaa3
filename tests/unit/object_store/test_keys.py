"""Keys and parts at the borders of what every adapter accepts."""

import pytest

from siltstone.model.limits import DELETE_BATCH_KEYS_MAX, PART_COUNT_MAX
from siltstone.object_store import keys
from siltstone.object_store.keys import (
    KEY_BYTES_MAX,
    SEGMENT_BYTES_MAX,
    InvalidKey,
    TooManyKeys,
    checked_batch,
    checked_key,
    checked_part_number,
    has_content,
    put_once,
    size_of_parts,
)
from siltstone.object_store.memory import MemoryStore
from siltstone.object_store.port import MultipartUpload, ObjectAlreadyExists, ObjectTruncated, UploadedPart
from siltstone.runtime.clock import ManualClock

UPLOAD = MultipartUpload("a5/objects/1", "an upload")
LONGEST = "/".join(["x" * 204] * 5)


@pytest.mark.parametrize("key", ["a", "a5/objects/1", "x" * SEGMENT_BYTES_MAX, "é" * 127, LONGEST])
def test_keys_that_every_adapter_stores(key: str) -> None:
    assert checked_key(key) == key


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("", "has an empty name between slashes"),
        ("a//b", "has an empty name between slashes"),
        ("/a", "has an empty name between slashes"),
        ("a/", "has an empty name between slashes"),
        ("a/..", "has a name that begins with a dot"),
        (".a", "has a name that begins with a dot"),
        ("a\n", "has unprintable characters or backslashes"),
        ("a\\b", "has unprintable characters or backslashes"),
        ("x" * (SEGMENT_BYTES_MAX + 1), "has a name longer than 255 bytes"),
        ("é" * 128, "has a name longer than 255 bytes"),
        (f"{LONGEST}x", "is longer than 1024 bytes"),
    ],
)
def test_keys_that_some_adapter_cannot_store(key: str, reason: str) -> None:
    assert len(LONGEST) == KEY_BYTES_MAX
    with pytest.raises(InvalidKey, match=reason) as refused:
        checked_key(key)
    assert refused.value.key == key


def test_a_delete_takes_so_many_keys_and_each_is_checked() -> None:
    keys = [f"k/{number}" for number in range(DELETE_BATCH_KEYS_MAX)]
    assert checked_batch(keys) is keys
    with pytest.raises(TooManyKeys, match="1001 keys are too many for one delete, which takes 1000"):
        checked_batch([*keys, "one-more"])
    with pytest.raises(InvalidKey):
        checked_batch(["a", ".b"])


@pytest.mark.parametrize("number", [1, PART_COUNT_MAX])
def test_the_first_and_the_last_part_number(number: int) -> None:
    assert checked_part_number(number) == number


@pytest.mark.parametrize("number", [0, PART_COUNT_MAX + 1])
def test_other_part_numbers_are_a_bug(number: int) -> None:
    with pytest.raises(AssertionError, match="part numbers are 1 to"):
        checked_part_number(number)


def parts(*rows: tuple[int, int, int]) -> list[UploadedPart]:
    """(number, position, size) of each."""
    return [UploadedPart(*row) for row in rows]


@pytest.mark.parametrize(
    ("sent", "size_bytes"),
    [
        (parts((1, 0, 0)), 0),
        (parts((1, 0, 5), (2, 5, 7)), 12),
        (parts((2, 0, 5), (9, 5, 7)), 12),  # numbers may leave gaps, positions may not
    ],
)
def test_the_size_of_parts_that_follow_each_other(sent: list[UploadedPart], size_bytes: int) -> None:
    assert size_of_parts(UPLOAD, sent) == size_bytes


@pytest.mark.parametrize(
    "sent",
    [
        parts((1, 1, 5)),
        parts((1, 0, 5), (2, 6, 7)),
        parts((1, 0, 5), (2, 4, 7)),
        parts((2, 0, 5), (1, 5, 7)),
        parts((1, 0, 5), (1, 5, 7)),
        parts((0, 0, 5)),
    ],
    ids=["late", "a gap", "an overlap", "out of order", "a number twice", "no number"],
)
def test_parts_that_do_not_follow_each_other_are_refused(sent: list[UploadedPart]) -> None:
    with pytest.raises(ObjectTruncated, match="send the missing part again"):
        size_of_parts(UPLOAD, sent)


def test_an_upload_without_a_part_is_refused() -> None:
    with pytest.raises(ObjectTruncated, match="has no parts; send at least one, which may be empty"):
        size_of_parts(UPLOAD, [])


KEY = "a5/objects/1"
CONTENT = bytes(range(50))


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    monkeypatch.setattr(keys, "COMPARED_BYTES_MAX", 16)
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
