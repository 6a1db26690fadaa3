"""Object keys: which ones the store writes, and how many one request may name.

The same rule holds for every adapter, so a key that works in a folder works on S3. No segment begins with a dot:
that refuses ``.`` and ``..``, and leaves the adapters room for names of their own beside the objects.

What is checked of a multipart upload before its parts become an object, the same in every adapter.
"""

from collections.abc import Sequence

from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import DELETE_BATCH_KEYS_MAX, PART_COUNT_MAX
from siltstone.object_store.port import MultipartUpload, ObjectTruncated, UploadedPart

KEY_BYTES_MAX = 1_024
"""The longest key of S3 and all its compatibles, in UTF-8."""

SEGMENT_BYTES_MAX = 255
"""The longest file name of the usual file systems."""


class InvalidKey(InvalidRequest):
    """The key is not one the store can write."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"object key {key!r} {reason}; use segments of letters, digits, - and _ joined by /")
        self.key = key


class TooManyKeys(InvalidRequest):
    """More keys than one delete request takes."""

    def __init__(self, key_count: int) -> None:
        super().__init__(f"one delete takes at most {DELETE_BATCH_KEYS_MAX} keys, not {key_count}; split it")
        self.key_count = key_count


def checked_key(key: str) -> str:
    """The key itself. Raises InvalidKey."""
    if not key.isprintable() or "\\" in key:
        raise InvalidKey(key, "has characters that cannot be printed, or backslashes")
    if len(key.encode()) > KEY_BYTES_MAX:
        raise InvalidKey(key, f"is longer than {KEY_BYTES_MAX} bytes")
    for segment in key.split("/"):
        _check_segment(key, segment)
    return key


def checked_batch(keys: Sequence[str]) -> Sequence[str]:
    """The keys of one delete. Raises InvalidKey, TooManyKeys."""
    if len(keys) > DELETE_BATCH_KEYS_MAX:
        raise TooManyKeys(len(keys))
    for key in keys:
        checked_key(key)
    return keys


def _check_segment(key: str, segment: str) -> None:
    if not segment:
        raise InvalidKey(key, "has an empty segment")
    if segment.startswith("."):
        raise InvalidKey(key, "has a segment that begins with a dot")
    if len(segment.encode()) > SEGMENT_BYTES_MAX:
        raise InvalidKey(key, f"has a segment longer than {SEGMENT_BYTES_MAX} bytes")


def checked_part_number(part_number: int) -> int:
    assert 1 <= part_number <= PART_COUNT_MAX, f"part numbers are 1 to {PART_COUNT_MAX}, not {part_number}"
    return part_number


def size_of_parts(upload: MultipartUpload, parts: Sequence[UploadedPart]) -> int:
    """The size of the object the parts make. Raises ObjectTruncated when they leave a gap or overlap, which is
    how a part that was never sent, or sent with another size than planned, shows itself."""
    if not parts:
        raise ObjectTruncated(f"{upload.key}: completed without a part; send at least one, it may be empty")
    end = previous_number = 0
    for part in parts:
        if part.position != end or part.part_number <= previous_number:
            raise ObjectTruncated(
                f"{upload.key}: part {part.part_number} begins at {part.position} but the parts before it end at"
                f" {end} with number {previous_number}; send the missing part again"
            )
        end += part.size_bytes
        previous_number = part.part_number
    return end
