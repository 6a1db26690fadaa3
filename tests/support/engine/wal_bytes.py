"""Write-ahead log bytes for tests: records one after another, with groups that confirm those before them."""

from collections.abc import Iterable, Sequence

from siltstone.model.record_batch import RecordBatch
from siltstone.object_formats.log_file import encode_record_header


def record_bytes(
    batch: RecordBatch, position: int, confirmed_position: int, metadata_version: int = 0
) -> bytes:
    header = encode_record_header(batch, position, confirmed_position, metadata_version)
    return bytes(header) + bytes(batch.payload)


def groups_bytes(
    groups: Iterable[Sequence[RecordBatch]], first_position: int = 0, metadata_version: int = 0
) -> bytes:
    """Returns a log whose groups are each written when all before it is durable: its records confirm that position."""
    log = b""
    for group in groups:
        confirmed = first_position + len(log)
        for batch in group:
            log += record_bytes(batch, first_position + len(log), confirmed, metadata_version)
    return log
