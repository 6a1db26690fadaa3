from siltstone.metadata.commands import PutKey, RemoveKey
from support.metadata.metadata_world import MetadataWorld


def test_put_keeps_what_stands_unless_told_to_overwrite() -> None:
    world = MetadataWorld()
    assert world.do(PutKey("k", b"1")) == b"1"
    assert world.do(PutKey("k", b"2")) == b"1"
    assert world.written == 0
    assert world.do(PutKey("k", b"2", overwrite=True)) == b"2"
    assert world.outcome(PutKey("k", b"2", overwrite=True)) == ("OK", 0)
    assert world.image.keys["k"] == b"2"


def test_remove_is_idempotent() -> None:
    world = MetadataWorld()
    world.do(PutKey("k", b"1"))
    assert world.outcome(RemoveKey("k")) == ("OK", 1)
    assert world.outcome(RemoveKey("k")) == ("OK", 0)
    assert not world.image.keys
