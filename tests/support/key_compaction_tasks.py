"""Tasks of key compaction that fail, for runners whose workers import them."""

from siltstone.maintenance.key_compaction.rewriting.run import run_key_compaction
from siltstone.maintenance.key_compaction.unit import decode_unit

DOOMED = "doomed-0"


def dies_of_one(unit: bytes) -> bytes:
    if decode_unit(unit).name == DOOMED:
        raise MemoryError("more than this executor has")
    return run_key_compaction(unit)
