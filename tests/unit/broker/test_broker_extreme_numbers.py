"""The largest and smallest numbers in every field of every API: each request is answered, and nothing is a bug.

A client's number that is added to a clock or to an offset can leave 64 bits, which Python notices only where the sum is
written.
"""

import logging
from collections.abc import Iterator

import msgspec
import pytest

from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.compiling.layout import ArrayOf, FieldGroup
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.catalogue import CATALOGUE
from siltstone.kafka_protocol.messages.join_group import JoinGroupRequest
from siltstone.kafka_protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from siltstone.kafka_protocol.messages.offset_fetch import OffsetFetchResponse
from siltstone.kafka_protocol.notation import Message, Number, Structure
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record
from support.broker.broker_world import BrokerWorld, in_broker_world
from support.broker.every_request import PRODUCE_SINCE, plain_request
from support.engine.engine_world import settled
from support.groups.raw_group import offset_fetch_request
from support.kafka.kafka_requests import batch_of, list_offsets_request, produce_request, row_of
from support.kafka.raw_calls import RawTopic
from support.kafka.wire_messages import layout_at
from support.scenarios import scenario

INT64_MAX = 2**63 - 1
EXTREMES = {
    "b": (-(2**7), -1, 0, 2**7 - 1),
    "h": (-(2**15), -1, 0, 2**15 - 1),
    "i": (-(2**31), -1, 0, 2**31 - 1),
    "q": (-(2**63), -1, 0, INT64_MAX),
}
WAIT_MS = 2**31
"""The longest time that a request can ask to wait for."""
WAITS_MAX = 5
"""The timers of a group that a member joins follow one another."""


def variants(message: Structure, group: FieldGroup, path: str = "") -> Iterator[tuple[str, Structure]]:
    """The message once for each of its numbers and each extreme value of that."""
    for field in [*group.fields, *(tagged.field for tagged in group.tagged)]:
        value, name = getattr(message, field.name), f"{path}{field.name}"
        if isinstance(field.type, Number):
            for extreme in EXTREMES.get(field.type.code, ()):
                yield f"{name}={extreme}", msgspec.structs.replace(message, **{field.name: extreme})
        elif isinstance(field.type, FieldGroup) and value is not None:
            for what, changed in variants(value, field.type, f"{name}."):
                yield what, msgspec.structs.replace(message, **{field.name: changed})
        elif isinstance(field.type, ArrayOf) and isinstance(field.type.element, FieldGroup) and value:
            for what, changed in variants(value[0], field.type.element, f"{name}."):
                yield what, msgspec.structs.replace(message, **{field.name: [changed, *value[1:]]})


async def answered(world: BrokerWorld, request: Message, version: int, what: str) -> Message | None:
    asked = world.client().send(request, version)
    await settled()
    for _ in range(WAITS_MAX):
        if not asked.done():
            await world.pass_ms(WAIT_MS)
    assert asked.done(), f"{what} is not answered"
    answer: Message | None = asked.result()
    return answer


def error_codes_in(answer: object) -> Iterator[int]:
    if isinstance(answer, Structure):
        yield getattr(answer, "error_code", 0)
        for name in answer.__struct_fields__:
            yield from error_codes_in(getattr(answer, name))
    elif isinstance(answer, list):
        for each in answer:
            yield from error_codes_in(each)


def versions_of(key: ApiKey) -> list[int]:
    lowest, highest = ANNOUNCED[key]
    return sorted(
        {
            PRODUCE_SINCE if key is ApiKey.PRODUCE else lowest,
            3 if key is ApiKey.OFFSET_COMMIT else highest,
            highest,
        }
    )


@pytest.mark.parametrize("key", ANNOUNCED, ids=lambda key: key.name)
def test_every_number_of_every_request(key: ApiKey, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: BrokerWorld) -> None:
        topic = await world.topic("t", partitions=2)
        await world.client().ask(produce_request(topic, bytes(batch_of(3))))
        for version in versions_of(key):
            plain = plain_request(key, version, RawTopic("t", topic.topic_id))
            if isinstance(plain, JoinGroupRequest):
                plain = msgspec.structs.replace(plain, member_id="")
            for what, changed in variants(plain, layout_at(CATALOGUE[key][0], version).group):
                assert isinstance(changed, Message)
                answer = await answered(world, changed, version, f"v{version} {what}")
                if answer is not None:
                    assert ErrorCode.UNKNOWN_SERVER_ERROR not in error_codes_in(answer), what

    with caplog.at_level(logging.ERROR):
        in_broker_world(scenario)
    assert not caplog.records


@pytest.mark.parametrize("retention_ms", [0, 1, 2**62, INT64_MAX - 1, INT64_MAX])
@pytest.mark.parametrize("version", [2, 3, 4])
@scenario(in_broker_world)
async def test_an_offset_is_committed_whatever_its_retention_time(
    world: BrokerWorld, retention_ms: int, version: int
) -> None:
    """It is kept for ever where the sum of the clock and the retention time passes 64 bits."""
    topic = await world.topic("t")
    row = OffsetCommitRequestPartition(partition_index=0, committed_offset=INT64_MAX)
    commit = OffsetCommitRequest(
        group_id="g",
        retention_time_ms=retention_ms,
        topics=[OffsetCommitRequestTopic(name="t", partitions=[row])],
    )
    answer = await answered(world, commit, version, "commit")
    assert isinstance(answer, OffsetCommitResponse)
    assert answer.topics[0].partitions[0].error_code == 0
    await world.restart()
    committed = await answered(
        world, offset_fetch_request("g", RawTopic("t", topic.topic_id), [0], 7), 7, "fetch"
    )
    assert isinstance(committed, OffsetFetchResponse)
    assert committed.topics[0].partitions[0].committed_offset == INT64_MAX


LONGEST = {
    "retention_ms": str(INT64_MAX),
    "segment_ms": str(INT64_MAX),
    "delete_retention_ms": str(INT64_MAX),
    "message_timestamp_after_max_ms": str(INT64_MAX),
    "message_timestamp_before_max_ms": str(INT64_MAX),
}


@pytest.mark.parametrize("timestamp_ms", [-(2**63), -2, -1, 0, INT64_MAX - 1, INT64_MAX])
@pytest.mark.parametrize(
    "configs",
    [LONGEST, LONGEST | {"message_timestamp_type": "LogAppendTime"}, {}],
    ids=["longest", "append-time", "plain"],
)
@scenario(in_broker_world)
async def test_records_of_any_time_are_stored_and_found_again(
    world: BrokerWorld, timestamp_ms: int, configs: dict[str, str]
) -> None:
    topic = await world.topic("t", **configs)
    batch = build_batch([Record(timestamp_ms=ms, key=b"k") for ms in (timestamp_ms, 5, timestamp_ms)])
    row = row_of(await world.client().ask(produce_request(topic, bytes(batch))))
    is_refused = not configs and timestamp_ms >= INT64_MAX - 1
    assert row.error_code == (ErrorCode.INVALID_TIMESTAMP if is_refused else 0)
    assert row_of(await world.client().ask(produce_request(topic, bytes(batch_of(2))))).error_code == 0
    await world.restart()
    for asked_ms in (*EXTREMES["q"], -2, -3, 5, INT64_MAX - 1):
        found = row_of(await world.client().ask(list_offsets_request(topic, asked_ms)))
        assert found.error_code in (0, ErrorCode.UNSUPPORTED_VERSION), asked_ms
