"""Golden bytes of the records of authorization, and of a snapshot that has ACLs and a mode.

Never change them; add those of the next version. A store without ACLs writes the bytes of before.
"""

from siltstone.foundation.sharded_map import ShardedMap
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.log_entry import LogEntry, decode_entry, encode_entry
from siltstone.metadata.snapshot import decode_snapshot, encode_snapshot
from siltstone.model.acls import Authorization, AuthorizationMode
from support.metadata.metadata_records import ACLS, MAY_NOTHING, MAY_READ

APPEND_ID = "00112233445566778899aabbccddeeff"
PREVIOUS = "ffeeddccbbaa99887766554433221100"

# Type, pattern, name, principal, host, operation, permission.
READ_BINDING = "970204a2666ca8557365723a616461a12a0303"
NOTHING_BINDING = "970403ad6b61666b612d636c7573746572ab557365723a434e3d737663a831302e302e302e370202"
ON = "a26f6e"
SUPER_USERS = "91a8557365723a616461"

ACLS_ENTRY = (
    "534c4f4702000000790000000000000000112233445566778899aabbccddeeffffeeddccbbaa99887766554433221100c73e77d7"
    "93"
    f"925292{READ_BINDING}{NOTHING_BINDING}"
    f"925391{NOTHING_BINDING}"
    f"9356{ON}{SUPER_USERS}"
)
ACLS_SNAPSHOT = (
    "53494d4701000000180000000000000000000000000000002a00000000000000a28ce788"
    "960100000003c41000112233445566778899aabbccddeeff",
    "53494d47010000003e0000000000000001000000000000002a00000000000000f8c21eb5"
    f"925292{READ_BINDING}{NOTHING_BINDING}",
    f"53494d4701000000110000000000000002000000000000002a000000000000006c495f8792569192{ON}{SUPER_USERS}",
)


def test_log_entry_with_acls() -> None:
    entry = LogEntry(APPEND_ID, ACLS, PREVIOUS)
    assert encode_entry(entry).hex() == ACLS_ENTRY
    assert decode_entry(bytes.fromhex(ACLS_ENTRY)) == entry


def test_snapshot_with_acls() -> None:
    image = MetadataImage(
        version=42,
        append_id=APPEND_ID,
        acls=ShardedMap((each.key, each) for each in (MAY_READ, MAY_NOTHING)),
        authorization=Authorization(AuthorizationMode.ON, ("User:ada",)),
    )
    assert tuple(chunk.hex() for chunk in encode_snapshot(image)) == ACLS_SNAPSHOT
    assert decode_snapshot(42, map(bytes.fromhex, ACLS_SNAPSHOT)) == image


def test_a_snapshot_without_acls_has_neither_part() -> None:
    assert len(list(encode_snapshot(MetadataImage(version=42)))) == 1
