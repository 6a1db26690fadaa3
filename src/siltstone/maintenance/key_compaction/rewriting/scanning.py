"""The sources' batches, block by block, with the kernels that look at them: what both scans share."""

from collections.abc import Iterator

import msgspec

from siltstone.maintenance.key_compaction.rewriting.batches import Batches
from siltstone.maintenance.key_compaction.rewriting.chunking import Records
from siltstone.maintenance.key_compaction.rewriting.failures import BAD_BATCH, StreamNotCompactable
from siltstone.maintenance.key_compaction.rewriting.kernels import columns
from siltstone.maintenance.key_compaction.rewriting.kernels.columns import Slots, read_only
from siltstone.maintenance.key_compaction.rewriting.kernels.port import Kernels
from siltstone.maintenance.key_compaction.rewriting.source_blocks import SourceBlock, SourceBlocks


class Scanner(msgspec.Struct, frozen=True):
    stream_id: int
    hash_key: bytes
    blocks: SourceBlocks
    kernels: Kernels

    def scan(self, from_offset: int = 0) -> Iterator[Batches]:
        """Of every block that ends after the offset. Raises DamagedBlock, StreamNotCompactable and what the store
        raises."""
        for block in self.blocks.read(from_offset):
            yield self._batches_of(block)

    def _batches_of(self, block: SourceBlock) -> Batches:
        where = f"the block at {block.entry.position} of object {block.object_id}"
        data = read_only(block.data)
        try:
            return Batches(data, self.kernels.scan_batches(data, self.stream_id), where)
        except BAD_BATCH as cause:
            raise StreamNotCompactable(f"{where} holds what are no record batches: {cause}") from cause

    def hashes(self, records: Records) -> Slots:
        found = records.columns
        return self.kernels.hash_keys(
            records.data, found[columns.KEY_AT], found[columns.KEY_BYTES], self.hash_key
        )
