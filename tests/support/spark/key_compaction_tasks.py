"""Tasks of key compaction that fail, for runners whose workers import them."""

from siltstone.maintenance.key_compaction.task import run_key_compaction
from siltstone.maintenance.key_compaction.task_input import CODEC

DOOMED = "doomed-0"


def dies_of_one(given: bytes) -> bytes:
    if CODEC.decode_input(given).name == DOOMED:
        raise MemoryError("more than this executor has")
    return run_key_compaction(given)
