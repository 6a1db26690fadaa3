"""Checks and refusals that the adapters share: of object keys, and of the parts of a multipart upload.

A key is a path of names joined by ``/``. The same rule holds for every adapter, so a key that works in a folder works
on S3. No name begins with a dot: that refuses ``.`` and ``..``, and reserves such names for the adapters' own files.
"""

from collections.abc import Sequence

from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import DELETE_BATCH_KEYS_MAX, PART_COUNT_MAX
from siltstone.object_store.port import (
    MultipartUpload,
    ObjectAlreadyExists,
    ObjectTruncated,
    UploadedPart,
    UploadNotFound,
)

KEY_BYTES_MAX = 1_024
"""The longest key that S3 and its compatibles accept, in UTF-8."""

SEGMENT_BYTES_MAX = 255
"""The longest file name that common file systems accept, in UTF-8: the limit of each name in a key."""


class InvalidKey(InvalidRequest):
    """An object key that some adapter cannot store."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"object key {key!r} {reason}; use names of letters, digits, - and _ joined by /")
        self.key = key


class TooManyKeys(InvalidRequest):
    """A delete request names more keys than S3 accepts in one request."""

    def __init__(self, key_count: int) -> None:
        super().__init__(
            f"{key_count} keys are too many for one delete, which takes {DELETE_BATCH_KEYS_MAX}; split it"
        )
        self.key_count = key_count


def checked_key(key: str) -> str:
    """Returns the key. Raises InvalidKey."""
    if not key.isprintable() or "\\" in key:
        raise InvalidKey(key, "has unprintable characters or backslashes")
    if len(key.encode()) > KEY_BYTES_MAX:
        raise InvalidKey(key, f"is longer than {KEY_BYTES_MAX} bytes")
    for segment in key.split("/"):
        _check_segment(key, segment)
    return key


def checked_batch(keys: Sequence[str]) -> Sequence[str]:
    """Returns the keys of a delete request. Raises InvalidKey, TooManyKeys."""
    if len(keys) > DELETE_BATCH_KEYS_MAX:
        raise TooManyKeys(len(keys))
    for key in keys:
        checked_key(key)
    return keys


def _check_segment(key: str, segment: str) -> None:
    if not segment:
        raise InvalidKey(key, "has an empty name between slashes")
    if segment.startswith("."):
        raise InvalidKey(key, "has a name that begins with a dot")
    if len(segment.encode()) > SEGMENT_BYTES_MAX:
        raise InvalidKey(key, f"has a name longer than {SEGMENT_BYTES_MAX} bytes")


def checked_part_number(part_number: int) -> int:
    assert 1 <= part_number <= PART_COUNT_MAX, f"part numbers are 1 to {PART_COUNT_MAX}, not {part_number}"
    return part_number


def upload_ended(upload: MultipartUpload) -> UploadNotFound:
    return UploadNotFound(
        f"upload {upload.upload_id} of {upload.key} was completed or aborted; start another"
    )


def key_taken(upload: MultipartUpload) -> ObjectAlreadyExists:
    return ObjectAlreadyExists(
        f"object {upload.key} exists already and was not replaced by upload {upload.upload_id}: another process has "
        "used the same object id, so the metadata of one of the two is an older copy"
    )


def part_missing(upload: MultipartUpload, part_number: int) -> ObjectTruncated:
    return ObjectTruncated(
        f"the upload of {upload.key} lacks part {part_number}, or has it in another size; send it again"
    )


def size_of_parts(upload: MultipartUpload, parts: Sequence[UploadedPart]) -> int:
    """Returns the size of the object that the parts make together. Raises ObjectTruncated when there is no part, or
    when parts leave a gap or overlap, which means that a part was never sent or has another size than planned."""
    if not parts:
        raise ObjectTruncated(
            f"the upload of {upload.key} has no parts; send at least one, which may be empty"
        )
    end = previous_number = 0
    for part in parts:
        if part.position != end or part.part_number <= previous_number:
            raise ObjectTruncated(
                f"part {part.part_number} of the upload of {upload.key} begins at {part.position}, but the parts before"
                f" it end at {end} with part {previous_number}; send the missing part again"
            )
        end += part.size_bytes
        previous_number = part.part_number
    return end
