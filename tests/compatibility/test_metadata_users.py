"""Golden bytes of the records of users and their sessions, and of a snapshot that has some.

Never change them; add those of the next version. A store without users writes the bytes of before.
"""

from siltstone.foundation.sharded_map import ShardedMap
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.log_entry import LogEntry, decode_entry, encode_entry
from siltstone.metadata.snapshot import decode_snapshot, encode_snapshot
from siltstone.metadata.users import ScramCredential, ScramUser
from siltstone.model.access import ScramMechanism
from support.metadata.metadata_records import SALT, USERS

APPEND_ID = "00112233445566778899aabbccddeeff"
PREVIOUS = "ffeeddccbbaa99887766554433221100"

USERS_ENTRY = (
    "534c4f4702000000690000000000000000112233445566778899aabbccddeeffffeeddccbbaa99887766554433221100"
    "c0460e9b939750a361646101c40300ff10c4200101010101010101010101010101010101010101010101010101010101"
    "010101c4200202020202020202020202020202020202020202020202020202020202020202cd10009351a36164610292"
    "57ab557365723a434e3d737663"
)
USERS_SNAPSHOT = (
    (
        "53494d4701000000180000000000000000000000000000002a0000000000000045c0dc31960100000002c41000112233"
        "445566778899aabbccddeeff"
    ),
    (
        "53494d4701000000e50000000000000001000000000000002a000000000000006999a40292509192a3616461929501c4"
        "0300ff10c4200101010101010101010101010101010101010101010101010101010101010101c4200202020202020202"
        "020202020202020202020202020202020202020202020202cd10009502c40300ff10c440030303030303030303030303"
        "030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303030303"
        "03030303c440040404040404040404040404040404040404040404040404040404040404040404040404040404040404"
        "04040404040404040404040404040404040404040404cd4000"
    ),
    ("53494d47010000000e0000000000000002000000000000002a000000000000007d27b9d192579192a8557365723a61646107"),
)


def test_log_entry_with_users() -> None:
    entry = LogEntry(APPEND_ID, USERS, PREVIOUS)
    assert encode_entry(entry).hex() == USERS_ENTRY
    assert decode_entry(bytes.fromhex(USERS_ENTRY)) == entry


def test_snapshot_with_users() -> None:
    credentials = (
        ScramCredential(ScramMechanism.SCRAM_SHA_256, SALT, b"\x01" * 32, b"\x02" * 32, 4096),
        ScramCredential(ScramMechanism.SCRAM_SHA_512, SALT, b"\x03" * 64, b"\x04" * 64, 16384),
    )
    image = MetadataImage(
        version=42,
        append_id=APPEND_ID,
        users=ShardedMap([("ada", ScramUser("ada", credentials))]),
        ended_sessions=ShardedMap([("User:ada", 7)]),
    )
    assert tuple(chunk.hex() for chunk in encode_snapshot(image)) == USERS_SNAPSHOT
    assert decode_snapshot(42, map(bytes.fromhex, USERS_SNAPSHOT)) == image
