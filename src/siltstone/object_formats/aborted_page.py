"""The format of a page of aborted transactions, version 1: a record of the meta stream beside the snapshots.

====== ==== =====================================================================
offset size field (little endian)
====== ==== =====================================================================
0      4    magic "SPA1"
4      4    CRC-32C of all that follows
8      24   for each transaction, in the order of the markers: producer id, first
            offset, marker offset
====== ==== =====================================================================

A snapshot would otherwise hold all aborted transactions of its partition: it would be written again and again, and at
last it would exceed one append. So the older transactions are in pages, which are written once. A snapshot names the
pages that it needs, and each page comes before the first snapshot that names it. The last record of a meta stream may
be a page: then the snapshot after it was never written, and the newest snapshot is the one before it.
"""

from siltstone.foundation.crc32c import crc32c
from siltstone.model.buffers import Buffer
from siltstone.model.errors import CorruptData

MAGIC = b"SPA1"
_HEADER_BYTES = 8
ENTRY_BYTES = 24


class DamagedAbortedPage(CorruptData):
    """A page of aborted transactions is damaged, or there is another record in its place."""


def is_aborted_page(payload: Buffer) -> bool:
    return bytes(memoryview(payload)[:4]) == MAGIC


def encode_aborted_page(packed: bytes) -> bytes:
    """``packed``: by ``partition_snapshot.pack_aborted``."""
    return MAGIC + crc32c((packed,)).to_bytes(4, "little") + packed


def decode_aborted_page(payload: Buffer) -> bytes:
    """Returns the entries, packed. Raises DamagedAbortedPage."""
    view = memoryview(payload)
    if len(view) < _HEADER_BYTES or not is_aborted_page(view):
        raise DamagedAbortedPage(
            f"a page of aborted transactions begins with {bytes(view[:4])!r} and has {len(view)} bytes"
        )
    packed = bytes(view[_HEADER_BYTES:])
    if crc32c((packed,)) != int.from_bytes(view[4:8], "little"):
        raise DamagedAbortedPage("a page of aborted transactions does not match its CRC-32C")
    if len(packed) % ENTRY_BYTES:
        raise DamagedAbortedPage(f"{len(packed)} bytes are no whole number of aborted transactions")
    return packed
