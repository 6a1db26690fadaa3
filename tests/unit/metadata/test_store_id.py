from siltstone.metadata.store_id import put_store_id, store_id_of
from siltstone.runtime.randomness import seeded_randomness
from support.metadata.metadata_world import MetadataWorld


def test_a_store_keeps_the_first_id_it_is_given() -> None:
    world = MetadataWorld()
    assert store_id_of(world.image) is None
    first = world.do(put_store_id(seeded_randomness(1))).decode()
    assert world.do(put_store_id(seeded_randomness(2))).decode() == first
    assert store_id_of(world.image) == first
    assert len(bytes.fromhex(first)) == 16
