"""An iteration of a compaction plan: what one task reads and writes. Plain values; the ids of the new objects are not
in it yet (``rewriting.unit`` adds them), so a plan can be made and looked at before any is prepared."""

import msgspec

from siltstone.maintenance.planning.reads import Read


class SourceReference(msgspec.Struct, frozen=True, array_like=True):
    object_id: int
    bucket_id: int


class StreamObjectPiece(msgspec.Struct, frozen=True, array_like=True):
    """Stream object number ``number`` of the plan: blocks [first_block, end_block) of the iteration."""

    number: int
    first_block: int
    end_block: int
    size_bytes: int


class PartPiece(msgspec.Struct, frozen=True, array_like=True):
    """A part of the stream set object: these blocks, then ``trailer`` (index and footer, in the last part only)."""

    part_number: int
    position: int
    first_block: int
    end_block: int
    trailer: bytes


class Iteration(msgspec.Struct, frozen=True):
    """``blocks`` are index entries (``columns.ENTRY``) whose ``source`` counts in ``sources``; those of one output
    stand together, in the order they are written."""

    number: int
    sources: tuple[SourceReference, ...]
    reads: tuple[Read, ...]
    blocks: bytes
    stream_objects: tuple[StreamObjectPiece, ...]
    part: PartPiece | None
    merged_block_bytes_max: int

    @property
    def bytes_read(self) -> int:
        return sum(read.end - read.start for read in self.reads)
