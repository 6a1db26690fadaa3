"""Golden bytes of the records of quotas, and of a snapshot that has some.

Never change them; add those of the next version. A store without quotas writes the bytes of before.
"""

from siltstone.foundation.sharded_map import ShardedMap
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.log_entry import LogEntry, decode_entry, encode_entry
from siltstone.metadata.snapshot import decode_snapshot, encode_snapshot
from siltstone.model.quotas import ClientQuota, QuotaKey
from support.metadata.metadata_records import ADAS_DEFAULT, OF_AN_ADDRESS, QUOTAS

APPEND_ID = "00112233445566778899aabbccddeeff"
PREVIOUS = "ffeeddccbbaa99887766554433221100"


def text(word: str) -> str:
    """A text of msgpack, of at most 31 bytes."""
    return f"{0xA0 | len(word):02x}{word.encode().hex()}"


# Pairs of type and name, sorted by type; nil is the default.
DEFAULT_CLIENT_OF_ADA = f"92 92{text('client-id')}c0 92{text('user')}{text('ada')}"
ADDRESS = f"91 92{text('ip')}{text('10.0.0.7')}"
MIB_A_SECOND = "cb4130000000000000"
TWO_MB_A_SECOND = "cb413e848000000000"
FIVE_A_SECOND = "cb4014000000000000"

QUOTAS_ENTRY = (
    "534c4f4702000000940000000000000000112233445566778899aabbccddeeffffeeddccbbaa9988776655443322110092e9826c"
    "93"
    f"94 54 {DEFAULT_CLIENT_OF_ADA} {text('producer_byte_rate')} {MIB_A_SECOND}"
    f"94 54 {ADDRESS} {text('connection_creation_rate')} {FIVE_A_SECOND}"
    f"93 55 {DEFAULT_CLIENT_OF_ADA} {text('request_percentage')}"
)
QUOTAS_SNAPSHOT = (
    "53494d4701000000180000000000000000000000000000002a0000000000000045c0dc31"
    "960100000002c41000112233445566778899aabbccddeeff",
    "53494d4701000000890000000000000001000000000000002a00000000000000aa0d8af5"
    "92 54 92"
    f"92 {DEFAULT_CLIENT_OF_ADA}"
    f"92 92{text('consumer_byte_rate')}{TWO_MB_A_SECOND} 92{text('producer_byte_rate')}{MIB_A_SECOND}"
    f"92 {ADDRESS} 91 92{text('connection_creation_rate')}{FIVE_A_SECOND}",
)


def test_log_entry_with_quotas() -> None:
    entry = LogEntry(APPEND_ID, QUOTAS, PREVIOUS)
    assert encode_entry(entry) == bytes.fromhex(QUOTAS_ENTRY)
    assert decode_entry(bytes.fromhex(QUOTAS_ENTRY)) == entry


def test_snapshot_with_quotas() -> None:
    of_ada = ClientQuota(
        ADAS_DEFAULT, ((QuotaKey.CONSUMER_BYTE_RATE, 2e6), (QuotaKey.PRODUCER_BYTE_RATE, 1_048_576.0))
    )
    of_an_address = ClientQuota(OF_AN_ADDRESS, ((QuotaKey.CONNECTION_CREATION_RATE, 5.0),))
    image = MetadataImage(
        version=42,
        append_id=APPEND_ID,
        quotas=ShardedMap((each.key, each) for each in (of_ada, of_an_address)),
    )
    assert list(encode_snapshot(image)) == list(map(bytes.fromhex, QUOTAS_SNAPSHOT))
    assert decode_snapshot(42, map(bytes.fromhex, QUOTAS_SNAPSHOT)) == image


def test_a_snapshot_without_quotas_has_no_such_part() -> None:
    assert len(list(encode_snapshot(MetadataImage(version=42)))) == 1
