import pytest

from siltstone.carrying.pipeline.kind import ScopeTopicUnknown, topics_named
from siltstone.metadata.commands import CreateTopic
from siltstone.metadata.image import MetadataImage
from support.maintenance.compaction_world import CompactionWorld


def test_a_text_is_one_name(world: CompactionWorld) -> None:
    for number, name in enumerate(("flights", "planes")):
        world.metadata.execute(CreateTopic(0, 1, name, str(number) * 32, 1))
    image = world.metadata.image
    assert topics_named(image, "flights") == {"flights"}
    assert topics_named(image, ["planes", "flights"]) == {"flights", "planes"}
    with pytest.raises(ScopeTopicUnknown, match=r"no topic flight in this store: did you mean flights\?"):
        topics_named(image, ["planes", "flight"])


def test_nothing_like_it_is_there() -> None:
    assert topics_named(MetadataImage(), ()) == frozenset()
    with pytest.raises(ScopeTopicUnknown, match="siltstone maintain explain lists the topics"):
        topics_named(MetadataImage(), ["flights"])
