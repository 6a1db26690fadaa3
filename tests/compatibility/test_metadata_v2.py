"""Golden bytes of a log entry of format 2 and of the snapshot header with an append id: the chain of entries.

Made by hand from the layout. Never change them; add those of the next version.
"""

from siltstone.metadata.image import MetadataImage
from siltstone.metadata.log_entry import EntryLink, LogEntry, decode_entry, encode_entry, link_of
from siltstone.metadata.snapshot import decode_snapshot, encode_snapshot
from support.metadata.metadata_records import STREAMS_AND_OBJECTS

APPEND_ID = "00112233445566778899aabbccddeeff"
PREVIOUS = "ffeeddccbbaa99887766554433221100"

ENTRY_V2 = (
    "534c4f4702000000200100000000000000112233445566778899aabbccddeeffffeeddccbbaa99887766554433221100"
    "7b2c31cbdc001298010102ab696e6361726e6174696f6ec2a42f77616c90c0930a0381a5746f706963a7666c69676874"
    "73940b030001920c03930d03cf0000010000000007920e9292030a9204cf0000010000000007920f0392100395140502"
    "00cf0000018bcfe5680097150501cf0000010000000007cf0000018bcfe56800cf00000174876e800092960305000acd"
    "0280cf00000174876e800196040507cf000001000000000740ff9316920506cf0000018bcfe5680092179105931ea774"
    "6f7069632f30c40200ff921fa7746f7069632f30972800aa636f6d70616374696f6ea6647269766572a762792068616e"
    "64cf0000018bcfe56800cf0000018bcfe73cc0932900cf0000018bcfe91180952a0002cf0000018bcfe9fbe0a4646f6e"
    "65922b00"
)
EMPTY_SNAPSHOT = (
    "53494d4701000000180000000000000000000000000000002a000000000000007a2f4646960100000000c41000112233"
    "445566778899aabbccddeeff"
)


def test_log_entry_v2() -> None:
    entry = LogEntry(APPEND_ID, STREAMS_AND_OBJECTS, PREVIOUS)
    assert encode_entry(entry).hex() == ENTRY_V2
    assert decode_entry(bytes.fromhex(ENTRY_V2)) == entry
    assert link_of(bytes.fromhex(ENTRY_V2)) == EntryLink(APPEND_ID, PREVIOUS)


def test_snapshot_with_the_append_id_of_its_last_entry() -> None:
    image = MetadataImage(version=42, append_id=APPEND_ID)
    assert [chunk.hex() for chunk in encode_snapshot(image)] == [EMPTY_SNAPSHOT]
    assert decode_snapshot(42, [bytes.fromhex(EMPTY_SNAPSHOT)]) == image
