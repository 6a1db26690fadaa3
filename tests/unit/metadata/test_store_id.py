from siltstone.metadata.store_id import claimed_url, put_claimed_url, put_store_id, store_id_of
from siltstone.runtime.randomness import seeded_randomness
from support.metadata.metadata_world import MetadataWorld


def test_a_store_keeps_the_first_id_it_is_given() -> None:
    world = MetadataWorld()
    assert store_id_of(world.image) is None
    first = world.do(put_store_id(seeded_randomness(1))).decode()
    assert world.do(put_store_id(seeded_randomness(2))).decode() == first
    assert store_id_of(world.image) == first
    assert len(bytes.fromhex(first)) == 16


def test_a_store_knows_where_each_bucket_was_claimed_last() -> None:
    world = MetadataWorld()
    assert claimed_url(world.image, 0) is None
    for bucket_id, url in ((0, "s3://a"), (1, "s3://b"), (0, "s3://c")):
        world.do(put_claimed_url(bucket_id, url))
    assert [claimed_url(world.image, bucket_id) for bucket_id in range(3)] == ["s3://c", "s3://b", None]
    assert store_id_of(world.image) is None
