"""A planned stream as it is shown to people."""

from siltstone.maintenance.key_compaction.planning.stream_plan import planned_unit
from support.maintenance.keyed_metadata import KeyedMetadata


def test_what_a_unit_says_of_its_stream() -> None:
    """Objects of 1,100 and 2,100 bytes with 1,000 and 2,000 bytes of batches; the first is clean."""
    world = KeyedMetadata()
    stream = world.topic()
    world.filled(stream, 100, 300)
    world.cleaned(stream, 100)
    plan = world.the_plan()
    assert plan.source_bytes == sum(source.size_bytes for source in plan.sources) > 3_000
    assert plan.bytes_read == plan.source_bytes + 2_000, "the dirty part is read twice"
    for object_bytes, objects_after in (
        (plan.source_bytes - 1, 2), (plan.source_bytes, 1), (plan.source_bytes + 1, 1), (1_000, 4),
    ):  # fmt: skip
        unit = planned_unit(plan, object_bytes)
        assert (unit.objects_before, unit.objects_after) == (2, objects_after)
    assert (unit.name, unit.topic, unit.partition, unit.stream_id) == ("t-0", "t", 0, stream)
    assert (unit.bytes_read, unit.bytes_written) == (plan.bytes_read, plan.source_bytes)
    assert unit.reason == plan.reason
    assert unit.detail == {
        "new": "offsets 100 to 300",
        "dirty": plan.dirtiness.words,
        "not further": plan.limit,
    }
