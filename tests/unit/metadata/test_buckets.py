import pytest

from siltstone.metadata.buckets import DamagedBucketList, decode_bucket_list, encode_bucket_list
from siltstone.model.buckets import BucketDefinition, BucketList, BucketState, StrategyType, WriteStrategy

LISTED = BucketList(
    (
        BucketDefinition(0, "file:///data/bucket", 1, BucketState.WRITABLE),
        BucketDefinition(1, "s3://second", 2, BucketState.READ_ONLY),
    ),
    WriteStrategy(StrategyType.ROUND_ROBIN, (1, 0)),
)
GOLDEN = (
    b'{"format":1,"buckets":[{"id":0,"url":"file:///data/bucket","weight":1,"state":"writable"},'
    b'{"id":1,"url":"s3://second","weight":2,"state":"read-only"}],'
    b'"strategy":{"name":"round-robin","order":[1,0],"copies":1}}'
)


def test_its_bytes_are_those_of_format_1() -> None:
    assert encode_bucket_list(LISTED) == GOLDEN
    assert decode_bucket_list(GOLDEN) == LISTED


@pytest.mark.parametrize("damaged", [b"", b"{}", GOLDEN[:-1], GOLDEN.replace(b"writable", b"empty", 1)])
def test_damage_is_a_named_error(damaged: bytes) -> None:
    with pytest.raises(DamagedBucketList, match="cannot be decoded"):
        decode_bucket_list(damaged)


def test_a_newer_format_says_what_to_do() -> None:
    with pytest.raises(DamagedBucketList, match="install a newer one"):
        decode_bucket_list(GOLDEN.replace(b'"format":1', b'"format":3'))
