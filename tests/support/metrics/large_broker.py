"""The parts that the sources of metrics read of a broker with thousands of topics and groups, without the broker."""

from types import SimpleNamespace
from typing import Any

from siltstone.broker.groups.known_groups import KnownGroup
from siltstone.broker.groups.offsets_log.record import CommittedOffset
from siltstone.broker.groups.rules.group import Group
from siltstone.broker.partitions.partitions import Traffic
from siltstone.broker.shares.shares import ShareStatistics
from siltstone.metadata.entities import PartitionMetadata, StreamMetadata, StreamState
from siltstone.runtime.clock import Clock

PARTITIONS = 2


def large_broker(topics: int, groups: int, clock: Clock) -> Any:
    """Each topic has PARTITIONS open partitions with 100 records, and traffic that grows from topic to topic; each
    group has committed offset 0 in all partitions of one topic."""
    names = [f"topic-{number}" for number in range(topics)]
    known = [_group(f"group-{number}", names[number % topics]) for number in range(groups)]
    partitions = [
        ((f"id-{name}", index), _partition(number))
        for number, name in enumerate(names)
        for index in range(PARTITIONS)
    ]
    by_name = {name: _topic(name, number) for number, name in enumerate(names)}
    streams = {stream: _stream(stream) for stream in range(topics * PARTITIONS)}
    image = SimpleNamespace(
        topics={f"id-{name}": by_name[name] for name in names}, streams=streams, objects={}
    )
    opened = dict(partitions)
    parts = SimpleNamespace(
        clock=clock,
        topics=SimpleNamespace(by_name=by_name.get),
        metadata=SimpleNamespace(image=image),
        groups=SimpleNamespace(known=lambda: known),
        shares=SimpleNamespace(statistics=ShareStatistics),
        transactions=SimpleNamespace(open_since_ms=list),
        partitions=SimpleNamespace(
            all_opened=lambda: list(partitions),
            opened=lambda topic_id, index: opened.get((topic_id, index)),
            traffic_of_deleted=Traffic(1, 2),
        ),
    )
    return SimpleNamespace(parts=parts)


def _topic(name: str, number: int) -> Any:
    streams = tuple(PartitionMetadata(number * PARTITIONS + index, -1) for index in range(PARTITIONS))
    return SimpleNamespace(
        name=name,
        id=f"id-{name}",
        partition_count=PARTITIONS,
        created_ms=0,
        metadata=SimpleNamespace(partitions=streams),
    )


def _partition(number: int) -> Any:
    return SimpleNamespace(
        bytes_in=number * 10, bytes_out=number, is_closed=False, shares=(), log_start_offset=0, high_watermark=100,
        read_cached=lambda offset, bytes_max: None, times=SimpleNamespace(time_before=lambda offset: 1_000),
    )  # fmt: skip


def _stream(stream_id: int) -> StreamMetadata:
    return StreamMetadata(stream_id, StreamState.OPENED, 0, 0, 0, 100, (), (), {})


def _group(name: str, topic: str) -> KnownGroup:
    offsets = {(topic, index): CommittedOffset(0, -1, "", 5) for index in range(PARTITIONS)}
    return KnownGroup(Group(name), None, offsets)
