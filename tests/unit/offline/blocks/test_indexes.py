from siltstone.model.objects import object_key
from siltstone.offline.blocks.indexes import read_indexes
from support.engine.faulty_store import Fault
from support.maintenance.compaction_world import CompactionWorld

SPECS = [{0: [(at, at + 1, 100)]} for at in range(3)]


def test_indexes_stand_in_the_order_given(world: CompactionWorld) -> None:
    ids = world.upload(*SPECS)
    heard: list[tuple[int, int]] = []
    objects = [world.metadata.image.objects[each] for each in reversed(ids)]
    sources, left_out = read_indexes(
        world.context.buckets, objects, lambda done, total: heard.append((done, total))
    )
    assert [source.metadata.object_id for source in sources] == ids[::-1]
    assert [[entry.start_offset for entry in source.index] for source in sources] == [[2], [1], [0]]
    assert left_out == []
    assert heard == [(1, 3), (2, 3), (3, 3)]


def test_t08_each_unreadable_one_is_left_out_with_its_reason(world: CompactionWorld) -> None:
    ids = world.upload(*SPECS)
    world.damage(ids[0], -1)
    world.store.delete([object_key(ids[1])])
    objects = [world.metadata.image.objects[each] for each in ids]
    sources, left_out = read_indexes(world.context.buckets, objects)
    assert [source.metadata.object_id for source in sources] == [ids[2]]
    assert [each.object_id for each in left_out] == ids[:2]
    assert "has no footer" in left_out[0].reason
    assert "no object" in left_out[1].reason


def test_t08_a_store_that_does_not_answer_leaves_it_out(world: CompactionWorld) -> None:
    ids = world.upload(*SPECS)
    world.store.fail_next(Fault.REFUSED, call="get_range")
    sources, left_out = read_indexes(
        world.context.buckets, [world.metadata.image.objects[each] for each in ids]
    )
    assert (len(sources), len(left_out)) == (2, 1)
