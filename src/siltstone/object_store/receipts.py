"""What is checked of a multipart upload before its parts become an object, the same in every adapter."""

from collections.abc import Sequence

from siltstone.model.limits import PART_COUNT_MAX
from siltstone.object_store.port import MultipartUpload, ObjectTruncated, UploadedPart


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
