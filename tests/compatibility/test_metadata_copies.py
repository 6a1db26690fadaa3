"""Golden bytes of the records and the snapshot of objects in several buckets, and of the list of buckets in format 2.

Never change them; add those of the next version. A store without copies writes the bytes of before.
"""

import pytest

from siltstone.foundation.sharded_map import ShardedMap
from siltstone.metadata.buckets import decode_bucket_list, encode_bucket_list
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.log_entry import LogEntry, decode_entry, encode_entry
from siltstone.metadata.snapshot import decode_snapshot, encode_snapshot
from siltstone.model.buckets import BucketDefinition, BucketList, BucketState, StrategyType, WriteStrategy
from siltstone.model.objects import ObjectState
from support.metadata.metadata_records import COPIES

APPEND_ID = "00112233445566778899aabbccddeeff"
PREVIOUS = "ffeeddccbbaa99887766554433221100"

COPIES_ENTRY = (
    "534c4f4702000000310000000000000000112233445566778899aabbccddeeffffeeddccbbaa99887766554433221100"
    "645f08a39593189205cf0000010000000007029319910502931a92050600921b01931c0192930300cf00000100000000"
    "0793040709"
)
COPIES_SNAPSHOT = (
    "53494d4701000000180000000000000000000000000000002a000000000000002d2f8f59960100080002c41000112233"
    "445566778899aabbccddeeff",
    "53494d4701000000180000000000000001000000000000002a00000000000000b5b548349203919b070300c0ccc00000"
    "cf0000018bcfe56800009009",
    "53494d4701000000120000000000000002000000000000002a0000000000000060bfb280921891930792010291cf0000"
    "000200000000",
)
BUCKETS_FORMAT_2 = (
    b'{"format":2,"buckets":[{"id":0,"url":"file:///data/bucket","weight":1,"state":"writable"},'
    b'{"id":1,"url":"s3://second","weight":2,"state":"writable"}],'
    b'"strategy":{"name":"replication","order":[1,0],"copies":2,"copies_min":1},"has_copies":true}'
)


def test_log_entry_with_copies() -> None:
    entry = LogEntry(APPEND_ID, COPIES, PREVIOUS)
    assert encode_entry(entry).hex() == COPIES_ENTRY
    assert decode_entry(bytes.fromhex(COPIES_ENTRY)) == entry


def test_snapshot_with_copies() -> None:
    one = ObjectMetadata(
        7, ObjectState.DESTROYED, 0, None, 192, 0, 0, 1_700_000_000_000, 0, (), 9, (1, 2), (2**33,)
    )
    image = MetadataImage(
        version=42,
        append_id=APPEND_ID,
        next_object_id=8,
        objects=ShardedMap([(7, one)]),
        destroyed=ShardedMap([(7, 1_700_000_000_000)]),
    )
    assert tuple(chunk.hex() for chunk in encode_snapshot(image)) == COPIES_SNAPSHOT
    assert decode_snapshot(42, map(bytes.fromhex, COPIES_SNAPSHOT)) == image


@pytest.mark.parametrize("strategy", ["replication", "failover"])
def test_b20_the_list_of_buckets_in_format_2(strategy: str) -> None:
    stored = BUCKETS_FORMAT_2.replace(b"replication", strategy.encode())
    buckets = (
        BucketDefinition(0, "file:///data/bucket", 1, BucketState.WRITABLE),
        BucketDefinition(1, "s3://second", 2, BucketState.WRITABLE),
    )
    listed = BucketList(buckets, WriteStrategy(StrategyType(strategy), (1, 0), 2, 1), has_copies=True)
    assert encode_bucket_list(listed) == stored
    assert decode_bucket_list(stored) == listed
