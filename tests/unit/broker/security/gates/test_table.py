"""``acls.required`` against what each API really asks and answers, with requests of every API that is announced.

AC01: a client without rights is denied as the table says; with exactly these rights it gets the answer that everybody
gets while authorization is off. AC14: every announced API has rights, and a gate.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from siltstone.broker.request import Rights
from siltstone.broker.security.acls.required import REQUIRED
from siltstone.broker.security.gates.table import GATES
from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from siltstone.kafka_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from siltstone.kafka_protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from siltstone.kafka_protocol.messages.describe_quorum import QuorumPartition
from siltstone.kafka_protocol.messages.fetch import FetchReplica
from siltstone.kafka_protocol.messages.find_coordinator import FindCoordinatorRequest
from siltstone.kafka_protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from siltstone.kafka_protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from siltstone.kafka_protocol.messages.init_producer_id import InitProducerIdRequest
from siltstone.kafka_protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from siltstone.kafka_protocol.notation import Message
from siltstone.model.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclOperation,
    AclResourceType,
)
from support.broker.broker_world import BrokerWorld, in_broker_world
from support.broker.every_request import PRODUCE_SINCE, plain_request
from support.kafka.raw_calls import RawTopic, fetch_request, metadata_request, produce_request
from support.scenarios import scenario
from support.security.rights import AskedRights, allow, client_of, refusals_in, switch

ASKED_BY_HANDLERS = {ApiKey.PRODUCE, ApiKey.FETCH}
"""They have no gate, because the broker calls them itself."""

ASKED_OF_ROWS = {
    ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.LIST_TRANSACTIONS, ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CONSUMER_GROUP_DESCRIBE, ApiKey.SHARE_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
}  # fmt: skip
"""They ask about each topic or row, and there is none here: ``test_transactions`` and ``test_groups`` have some."""

ASKED_LATER = {ApiKey.ADD_PARTITIONS_TO_TXN: {(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)}}
"""Asked from a version on that is not announced: ``test_transactions``."""

ALWAYS_ANSWERED = {
    ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.DESCRIBE_CLUSTER,
    ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS,
}  # fmt: skip
"""What a client may not see is left out of their answers, and nothing is denied."""

_ACL_APIS = (ApiKey.CREATE_ACLS, ApiKey.DESCRIBE_ACLS, ApiKey.DELETE_ACLS)
"""They are refused while authorization is off."""

VERSIONS = [
    (key, version)
    for key, (lowest, highest) in ANNOUNCED.items()
    for version in range(PRODUCE_SINCE if key is ApiKey.PRODUCE else lowest, highest + 1)
]


KINDS = (2, 4, 32)
"""Topic, broker and group, as resources with configurations."""

RICH: dict[ApiKey, Callable[[RawTopic], Message]] = {
    ApiKey.PRODUCE: lambda topic: produce_request(topic, {0: b""}, transactional_id="x"),
    ApiKey.FETCH: lambda topic: fetch_request(topic, {0: 0}, replica=FetchReplica(replica_id=1)),
    ApiKey.METADATA: lambda _: metadata_request("missing", creates=True),
    ApiKey.FIND_COORDINATOR: lambda _: FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]),
    ApiKey.INIT_PRODUCER_ID: lambda _: InitProducerIdRequest(
        transactional_id="x", transaction_timeout_ms=1_000
    ),
    ApiKey.DELETE_TOPICS: lambda topic: DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=topic.id)]),
    ApiKey.OFFSET_FETCH: lambda _: OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]
    ),
    ApiKey.DESCRIBE_CONFIGS: lambda _: DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=each, resource_name="7", configuration_keys=None)
            for each in KINDS
        ]
    ),
    ApiKey.ALTER_CONFIGS: lambda _: AlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=each, resource_name="7") for each in KINDS],
        validate_only=True,
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda _: IncrementalAlterConfigsRequest(
        resources=[IncrementalResource(resource_type=each, resource_name="7") for each in KINDS],
        validate_only=True,
    ),
}
"""A request in the newest version that needs what a plain one does not."""


NEWEST_OF_CLIENTS = {ApiKey.ADD_PARTITIONS_TO_TXN: 3}
"""Later versions are for nodes, and ask for their rights, as in Kafka."""


def _rich_requests(key: ApiKey, topic: RawTopic) -> Iterator[tuple[Message, int]]:
    if key in RICH:
        yield RICH[key](topic), ANNOUNCED[key][1]


async def _raw_topic(world: BrokerWorld) -> RawTopic:
    topic = await world.topic("t")
    return RawTopic(topic.name, topic.topic_id)


def _codes(answer: Any) -> set[int]:
    return {code for _, code in refusals_in(answer)}


def test_ac14_every_announced_api_has_rights_and_a_gate() -> None:
    assert ANNOUNCED.keys() <= REQUIRED.keys()
    assert ANNOUNCED.keys() - GATES.keys() == ASKED_BY_HANDLERS


def test_ac14_each_api_asks_what_the_table_says_and_nothing_else() -> None:
    asked: dict[ApiKey, set[tuple[AclOperation, AclResourceType]]] = {key: set() for key in ANNOUNCED}

    async def scenario(world: BrokerWorld) -> None:
        topic = await _raw_topic(world)
        for key in ANNOUNCED:
            newest = NEWEST_OF_CLIENTS.get(key, ANNOUNCED[key][1])
            for allowed in ((), (AclOperation.DESCRIBE,), tuple(AclOperation)):
                rights = AskedRights(allowed)
                _set_rights(world, rights)
                for request, version in (
                    (plain_request(key, newest, topic), newest),
                    *_rich_requests(key, topic),
                ):
                    if not (AclOperation.DELETE in allowed and isinstance(request, DeleteTopicsRequest)):
                        await world.client().ask(request, version)
                asked[key] |= rights.asked

    in_broker_world(scenario)
    needed = {key: {(each.operation, each.resource_type) for each in REQUIRED[key]} for key in ANNOUNCED}
    bits = {(AclOperation.DESCRIBE, AclResourceType.TOPIC)}
    topic_bits = {(each, AclResourceType.TOPIC) for each in AclOperation}
    for key, questions in asked.items():
        seen = questions - (topic_bits - bits if key is ApiKey.DESCRIBE_TOPIC_PARTITIONS else set())
        needed[key] -= ASKED_LATER.get(key, set())
        assert seen == needed[key] or (key in ASKED_OF_ROWS and seen < needed[key]), key.name


def _set_rights(world: BrokerWorld, rights: Rights) -> None:
    world.broker.authorizer = rights  # type: ignore[assignment]


def _rights_for(key: ApiKey, topic: str) -> list[AclBinding]:
    names = {AclResourceType.CLUSTER: CLUSTER_NAME}
    return [
        allow(each.operation, each.resource_type, names.get(each.resource_type, "*"))
        for each in REQUIRED[key]
    ]


@pytest.mark.parametrize("key", [key for key in ANNOUNCED if key not in ALWAYS_ANSWERED])
@scenario(in_broker_world)
async def test_ac01_without_a_right_each_version_is_denied_as_the_table_says(
    world: BrokerWorld, key: ApiKey
) -> None:
    topic = await _raw_topic(world)
    await switch(world)
    denied = {each.denied for each in REQUIRED[key]} - {None}
    for version in [version for each, version in VERSIONS if each is key]:
        answer = await client_of(world).ask(plain_request(key, version, topic), version)
        codes = _codes(answer)
        assert codes <= denied, (version, codes)
        assert codes or _has_no_code(key, version), version


def _has_no_code(key: ApiKey, version: int) -> bool:
    """Before these versions the answer has nowhere to say why it is empty."""
    return version < {ApiKey.DESCRIBE_LOG_DIRS: 3}.get(key, 0)


MADE_UP = {
    "producer_id",
    "producer_epoch",
    "last_caught_up_timestamp",
    "last_fetch_timestamp",
    "log_end_offset",
}
"""Fields that differ between two answers to the same request."""

CHANGING = (ApiKey.DELETE_TOPICS, ApiKey.METADATA)
"""Their rich requests delete and create a topic."""


def _comparable(answer: Any) -> Any:
    if isinstance(answer, list):
        return sorted((_comparable(each) for each in answer), key=repr)
    if isinstance(answer, msgspec.Struct):
        return {
            field.name: _comparable(getattr(answer, field.name))
            for field in msgspec.structs.fields(type(answer))
            if field.name not in MADE_UP
            and not (field.name == "high_watermark" and isinstance(answer, QuorumPartition))
            and not field.name.endswith("authorized_operations")
        }
    return bytes(answer) if isinstance(answer, memoryview) else answer


@pytest.mark.parametrize("key", [key for key in ANNOUNCED if key not in (ApiKey.PRODUCE, *_ACL_APIS)])
@scenario(in_broker_world)
async def test_ac01_with_exactly_the_rights_of_the_table_it_is_as_without_authorization(
    world: BrokerWorld, key: ApiKey
) -> None:
    topic = await _raw_topic(world)
    requests = [(plain_request(key, version, topic), version) for each, version in VERSIONS if each is key]
    requests += [(request, version) for request, version in _rich_requests(key, topic) if key not in CHANGING]
    before = [_comparable(await world.client().ask(*each)) for each in requests]
    await switch(world, *_rights_for(key, topic.name))
    after = [_comparable(await client_of(world).ask(*each)) for each in requests]
    assert after == before
