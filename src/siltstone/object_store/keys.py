"""Object keys: which ones the store writes, and how many one request may name.

The same rule holds for every adapter, so a key that works in a folder works on S3. No segment begins with a dot:
that refuses ``.`` and ``..``, and leaves the adapters room for names of their own beside the objects.
"""

from collections.abc import Sequence

from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import DELETE_BATCH_KEYS_MAX

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
