"""Checks and refusals that the adapters share: of object keys, and of the parts of a multipart upload; and the put that
replaces no object.

A key is a path of names joined by ``/``. The same rule holds for every adapter, so a key that works in a folder works
on S3. No name begins with a dot: that refuses ``.`` and ``..``, and reserves such names for the adapters' own files.

Every object is written once (rule 11): no put replaces an object, not even that of a process with an older copy of the
metadata. A caller may put the same bytes to a key again, as a task that Spark runs twice does. So a put that finds an
object compares its bytes with those to be written: equal bytes are a success, other bytes are an error, and the object
stays.
"""

from collections.abc import Callable, Iterator, Sequence

from siltstone.model.buffers import Buffers, total_bytes
from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import DELETE_BATCH_KEYS_MAX, PART_COUNT_MAX
from siltstone.object_store.port import (
    MultipartUpload,
    ObjectAlreadyExists,
    ObjectNotFound,
    ObjectStore,
    ObjectSummary,
    ObjectTruncated,
    UploadedPart,
    UploadNotFound,
)

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
