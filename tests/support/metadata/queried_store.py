"""A small store in values: two topics, objects of every state, a job, a bucket; and its tables."""

from typing import Any

from siltstone.metadata.buckets import RegisterBuckets
from siltstone.metadata.commands import CreateTopic, OpenPartition, PrepareObjects, PutKey, TrimStream
from siltstone.metadata.log_entry import LogEntry
from siltstone.metadata_tables.catalog import MetadataTables, tables_of
from siltstone.metadata_tables.moment import GroupCommit, Moment
from support.metadata.metadata_world import HOUR_MS, MetadataWorld

FLIGHTS, PLANES = "f" * 32, "a" * 32
COMMITS = (
    GroupCommit("late", "flights", 0, 15, 1_000_000_000, "note"),
    GroupCommit("late", "flights", 1, 5, 1_000_000_000),
    GroupCommit("done", "flights", 0, 30),
    GroupCommit("gone", "trains", 0, 3),
)


def queried_world() -> MetadataWorld:
    """Streams 0 and 2 are the data streams of flights, 4 that of planes. Object 0 is an SSO over flights and planes,
    object 1 an SO of flights-0; object 2 is destroyed, object 3 is what compaction made of it, object 4 is prepared.
    Offsets 0 to 12 of flights-0 are trimmed."""
    world = MetadataWorld()
    world.register_reachable(0)
    world.do(RegisterBuckets({0: "s3://key:secret@bucket/store"}, 0))
    world.do(CreateTopic(0, 1, "flights", FLIGHTS, 2, configs={"retention.ms": "3600000"}))
    world.do(CreateTopic(0, 1, "planes", PLANES, 1))
    for topic_id, count in ((FLIGHTS, 2), (PLANES, 1)):
        for index in range(count):
            world.do(OpenPartition(0, 1, topic_id, index))
    world.now_ms += 1_000
    world.do(world.upload((0, 0, 10), (4, 0, 7), alone=((0, 10, 30),), data_time_ms=world.now_ms))
    world.now_ms += 1_000
    world.do(world.upload((2, 0, 5), data_time_ms=world.now_ms))
    world.do(TrimStream(0, 1, 0, 0, 12))
    job = world.start_job("stream-set-compaction")
    world.now_ms += 2_000
    world.do(world.compaction(job, (2,), alone=((2, 0, 5),)))
    world.do(PrepareObjects(1, HOUR_MS, node_id=0, node_epoch=1))
    world.do(PutKey("node-secrets", b"very secret"))
    return world


def queried(world: MetadataWorld | None = None, version: int | None = None, **words: Any) -> MetadataTables:
    world = world or queried_world()
    image = world.image if version is None else world.images[version]
    entries = [
        (number, LogEntry(f"{number:032x}", records)) for number, records in enumerate(world.log, start=1)
    ]
    words = {"commits": lambda: COMMITS, "entries": lambda: entries, **words}
    return tables_of(Moment(image, world.now_ms, **words))
