"""FindCoordinator: the node that coordinates a group, or a transactional id."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from siltstone.broker.cluster_view import BrokerEndpoint
from siltstone.broker.groups.apis.find_coordinator import handle_find_coordinator
from siltstone.broker.request import Listener
from siltstone.kafka_protocol.codec import decode, encode
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from support.groups.groups_world import context


def groups_at_node_7() -> tuple[Any, Any, Any]:
    async def prepared() -> None:
        return None

    groups = SimpleNamespace(prepare_to_find=prepared, coordinator_of=lambda _: 7)
    return groups, groups, SimpleNamespace(endpoint_of=_endpoint)


def _endpoint(node_id: int, listener: Listener) -> BrokerEndpoint:
    return BrokerEndpoint(node_id, listener.advertised_host, listener.advertised_port)


def find(version: int, key_type: int, *keys: str) -> list[Any]:
    request = (
        FindCoordinatorRequest(key_type=key_type, coordinator_keys=list(keys))
        if version >= 4
        else FindCoordinatorRequest(key_type=key_type, key=keys[0])
    )
    sent = decode(FindCoordinatorRequest, version, encode(request, version))
    response = asyncio.run(handle_find_coordinator(*groups_at_node_7(), context(version), sent))
    received = decode(FindCoordinatorResponse, version, encode(response, version))
    return list(received.coordinators) if version >= 4 else [received]


@pytest.mark.parametrize("key_type", [0, 1])
@pytest.mark.parametrize("version", range(7))
def test_groups_and_transactional_ids_are_here_under_the_address_of_the_listener(
    version: int, key_type: int
) -> None:
    (found,) = find(version, key_type if version else 0, "readers")
    assert (found.node_id, found.host, found.port) == (7, "broker.example", 9092)
    assert found.error_code == ErrorCode.NONE
    if 1 <= version < 4:
        assert found.error_message == "NONE", "as Kafka writes it; kafkajs takes nothing else"


def test_several_keys_are_answered_each() -> None:
    assert [found.key for found in find(4, 0, "one", "two", "")] == ["one", "two", ""]
    assert find(4, 0) == []


@pytest.mark.parametrize("key_type", [2, 3, -1])
def test_there_are_no_other_kinds(key_type: int) -> None:
    (found,) = find(6, key_type, "key")
    assert found.error_code == ErrorCode.INVALID_REQUEST and found.node_id == -1
