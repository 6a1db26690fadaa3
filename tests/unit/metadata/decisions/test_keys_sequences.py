import pytest

from siltstone.metadata.commands import TakeNumbers
from siltstone.metadata.refusals import CommandMalformed
from support.metadata.metadata_world import MetadataWorld


def test_numbers_are_given_out_once_and_sequences_know_nothing_of_each_other() -> None:
    world = MetadataWorld()
    assert world.do(TakeNumbers("producer ids", 1000)) == 0
    assert world.do(TakeNumbers("producer ids", 1)) == 1000
    assert world.do(TakeNumbers("other", 5)) == 0
    assert world.do(TakeNumbers("producer ids", 1)) == 1001
    assert dict(world.image.sequences) == {"producer ids": 1002, "other": 5}


def test_the_last_numbers_of_64_bits() -> None:
    world = MetadataWorld()
    world.do(TakeNumbers("s", 2**63 - 2))
    with pytest.raises(CommandMalformed, match="take fewer"):
        world.do(TakeNumbers("s", 2))
    assert world.do(TakeNumbers("s", 1)) == 2**63 - 2


@pytest.mark.parametrize("count", [0, -1])
def test_no_numbers_at_all(count: int) -> None:
    assert MetadataWorld().outcome(TakeNumbers("s", count)) == ("INVALID_REQUEST", 0)
