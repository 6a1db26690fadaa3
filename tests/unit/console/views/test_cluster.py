from siltstone.console.views.cluster import led_by, move_command, moves_of, node_views, nodes_to_lead
from siltstone.foundation.sharded_map import ShardedMap
from siltstone.metadata.entities import NO_NODE, NodeListener, NodeMetadata, PartitionMetadata, TopicMetadata
from siltstone.metadata.image import MetadataImage

LISTENERS = (NodeListener("PLAINTEXT", "host", 9092),)


def image() -> MetadataImage:
    partitions = {
        "a": (PartitionMetadata(0, 1, 0), PartitionMetadata(2, 3, 1, 0), PartitionMetadata(4, 5, NO_NODE)),
        "b": (PartitionMetadata(6, 7, 1),),
    }
    topics = [
        (f"{number:032x}", TopicMetadata(f"{number:032x}", name, found, {}, 1, 0, False))
        for number, (name, found) in enumerate(partitions.items())
    ]
    nodes = [
        NodeMetadata(0, 1, "x", False, "wal", listeners=LISTENERS),
        NodeMetadata(1, 1, "x", False, "wal", listeners=LISTENERS),
        NodeMetadata(2, 1, "x", False, "wal", listeners=LISTENERS, is_fenced=True),
        NodeMetadata(3, 1, "x", False, "wal", listeners=LISTENERS, is_draining=True),
    ]
    return MetadataImage(topics=ShardedMap(topics), nodes=ShardedMap((each.node_id, each) for each in nodes))


def test_which_node_leads_what_of_the_topics_that_the_visitor_sees():
    assert led_by(image(), 1, lambda _: True) == [("a", [1]), ("b", [0])]
    assert led_by(image(), 1, "b".__eq__) == [("b", [0])]
    assert led_by(image(), 7, lambda _: True) == []


def test_moves_are_counted_at_both_nodes():
    found = image()
    assert moves_of(found.topics.values()) == [("a", 1, 1, 0)]
    first, second, silent, drained = node_views(found)
    assert (first.arriving, first.leaving, second.arriving, second.leaving) == (1, 0, 0, 1)
    assert "was silent" in silent.note and drained.note == "being drained"
    assert node_views(found, ())[0].arriving == 0, "the caller has counted"


def test_a_partition_is_moved_to_a_node_that_may_lead_it():
    assert nodes_to_lead(image()) == [0, 1]
    assert move_command(image(), "a b", 2, 0) == "siltstone topics move 'a b:2' --to 1"
