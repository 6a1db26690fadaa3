"""Golden bytes of what the metadata keep of a node's flushes, and of the record of a load."""

from siltstone.metadata.flushes import NodeFlushes, encode_flushes, flush_key, flushes_of
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.log_entry import LogEntry, decode_entry, encode_entry
from siltstone.metadata.records import KeySet
from support.metadata.metadata_records import SINKS
from support.metadata.metadata_world import next_image

FLUSHES_V1 = "9301cd012c07"
LOADS_ENTRY = (
    "534c4f4702000000140000000000000000112233445566778899aabbccddeeffffffffffffffffffffffffffffffffff"
    "b725166b91921392930304cf000001000000000793050007"
)


def test_flushes_v1() -> None:
    flushes = NodeFlushes(asked=300, answered=7)
    assert encode_flushes(flushes).hex() == FLUSHES_V1
    image = next_image(MetadataImage(), [KeySet(flush_key(3), bytes.fromhex(FLUSHES_V1))])
    assert flushes_of(image, 3) == flushes


def test_an_entry_with_loads() -> None:
    """Compared with the layout by hand: tag 19, then (stream id, epoch, end offset) of each stream."""
    entry = LogEntry("00112233445566778899aabbccddeeff", SINKS, "ff" * 16)
    assert encode_entry(entry).hex() == LOADS_ENTRY
    assert decode_entry(bytes.fromhex(LOADS_ENTRY)) == entry
