"""Tables that Spark makes of topics, and sinks that write into them."""

from siltstone.metadata.commands import AlterTopicConfigs
from siltstone.metadata.sinks import OBJECTS, BeginSinkBatch, SinkBatch, SinkState, SinkTarget
from siltstone.tables.progress import TableProgress, put_progress
from support.metadata.queried_store import FLIGHTS, queried, queried_world


def test_a_table_says_how_far_its_export_is() -> None:
    world = queried_world()
    world.do(
        AlterTopicConfigs(
            FLIGHTS, {"siltstone.table.format": "delta", "siltstone.table.name": "kafka.flights"}
        )
    )
    progress = TableProgress(
        table="kafka.flights", table_format="delta", offsets={0: 20, 1: 5}, exported_ms=7_000, rows=25
    )
    world.do(put_progress(FLIGHTS, progress))
    (row,) = queried(world).tables.rows()
    assert (row["topic"], row["table"], row["format"], row["rows"]) == (
        "flights",
        "kafka.flights",
        "delta",
        25,
    )
    assert (row["behind_offsets"], row["trouble"]) == (10, "")
    assert queried(world).tables.rows(topic="planes") == []


def test_a_sink_says_what_its_newest_batch_does() -> None:
    world = queried_world()
    batch = SinkBatch(
        OBJECTS, "query", 7, SinkState.INTENT, "driver", 3, "key", 0, 5_000, "schema", (SinkTarget(2, 0, 5),)
    )
    world.do(BeginSinkBatch("sink", batch, world.now_ms))
    (row,) = queried(world).sinks.rows()
    assert (row["sink"], row["mode"], row["batch"], row["state"], row["topics"], row["partitions"]) == (
        "sink",
        "objects",
        7,
        "INTENT",
        "flights",
        1,
    )
    assert queried(world).sinks.rows(topic="planes") == []
    assert queried(world).sinks.rows(topic="flights") == [row]
