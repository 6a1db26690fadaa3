"""An unsupported request closes its connection and is logged, but not five times a second."""

import logging

import pytest

from siltstone.broker.request import CloseConnection
from siltstone.broker.unsupported import UnsupportedRequests
from siltstone.kafka_protocol.announced import ANNOUNCED
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.log_limit import LOG_INTERVAL_MS
from support.broker.broker_world import in_broker_world
from support.scenarios import scenario


def frame(key: int, version: int) -> memoryview:
    return memoryview(
        bytearray(key.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\7\0\1c" + bytes(20))
    )


@pytest.mark.parametrize(
    ("key", "version", "told"),
    [
        (
            ApiKey.CREATE_DELEGATION_TOKEN,
            3,
            "CreateDelegationToken (API 38, version 3), which this broker does not support",
        ),
        (ApiKey.FETCH, 99, "Fetch (API 1, version 99), which this broker supports in versions 4 to 18"),
        (999, 0, "API 999, which is none of Kafka's"),
    ],
)
def test_item_6_a_request_that_is_not_supported_leaves_a_line_that_names_it(key, version, told, caplog):
    async def scenario(world):
        client = world.client()
        for _ in range(5):
            with pytest.raises(CloseConnection) as refused:
                world.broker.handle(client.connection, frame(key, version))
            assert str(refused.value) == f"the client asked for {told}"

    with caplog.at_level(logging.WARNING, logger="siltstone.broker.unsupported"):
        in_broker_world(scenario)
    (line,) = caplog.messages
    assert line.startswith(f"a client at client.example asked for {told}, so its connection was closed.")
    assert "differences-from-kafka" in line


@pytest.mark.parametrize("key", [ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY])
@scenario(in_broker_world)
async def test_ab11_telemetry_is_not_announced_and_closes_the_connection(world, key) -> None:
    """Its body is not looked at: what a client pushes may be compressed, and would need no right [CVE-2026-111073]."""
    assert key not in ANNOUNCED
    with pytest.raises(CloseConnection, match="Telemetry"):
        world.broker.handle(world.client().connection, frame(key, 0))


@scenario(in_broker_world)
async def test_each_api_is_logged_by_itself_and_again_after_a_minute(world, caplog) -> None:
    clock = ManualClock()
    requests, connection = UnsupportedRequests(clock), world.client().connection

    def logged(*numbers: int) -> int:
        before = len(caplog.messages)
        for number in numbers:
            requests.refusal(connection, number, 0)
        return len(caplog.messages) - before

    assert logged(30, 31, 30, 31) == 2
    assert logged(*range(1_000, 3_000)) == 1, "numbers that are no API's are told once"
    clock.advance_ms(LOG_INTERVAL_MS - 1)
    assert logged(30, 5_000) == 0
    clock.advance_ms(1)
    assert logged(30, 5_000) == 2
