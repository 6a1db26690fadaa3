"""Any bytes as a frame, straight into ``KafkaBroker.handle``: an answer that can be read, or the end of the connection;
never another exception, and whoever behaves is served afterwards."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.broker.request import CloseConnection
from siltstone.kafka_protocol.codec import decode
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.headers import decode_request_header, decode_response_header
from siltstone.kafka_protocol.messages.api_versions import ApiVersionsResponse
from siltstone.kafka_protocol.messages.catalogue import CATALOGUE
from support.broker.broker_world import BrokerWorld, Client, in_broker_world
from support.engine.engine_world import settled
from support.kafka.frame_mutations import EXTREMES, Plausible, valid_frames
from support.kafka.kafka_requests import batch_of, fetch_request, produce_request, row_of
from support.kafka.raw_calls import RawTopic
from support.values.examples import examples

TOPICS = [RawTopic("fuzz"), RawTopic("fuzz-too")]
POOL = valid_frames(Random(7), TOPICS[0], "fuzz-group")
PLAUSIBLE = Plausible(TOPICS, ["fuzz-group", "fuzz-group-too"])

Edit = tuple[int, int, bytes]
edits = st.lists(
    st.tuples(
        st.integers(0, 200), st.integers(0, 8), st.one_of(st.binary(max_size=4), st.sampled_from(EXTREMES))
    ),
    max_size=3,
)


def edited(frame: bytes, changes: Sequence[Edit]) -> bytes:
    """At a position so many bytes give way to others."""
    for position, removed, put in changes:
        frame = frame[:position] + put + frame[position + removed :]
    return frame


frames = st.one_of(
    st.builds(edited, st.sampled_from(POOL), edits),
    st.builds(PLAUSIBLE.frame, st.randoms(use_true_random=False)),
    st.binary(max_size=60),
)


class Errors(logging.Handler):
    """What the broker took for a fault of its own."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def assert_readable(frame: bytes, answer: Any) -> None:
    """None, or a whole response to that request."""
    if answer is None:
        return
    sent = b"".join(answer)
    assert int.from_bytes(sent[:4], "big") == len(sent) - 4
    header, _ = decode_request_header(memoryview(frame))
    response = CATALOGUE[header.api_key][1]
    version = header.api_version
    if response is ApiVersionsResponse and not 0 <= version <= 4:
        version = 0
    correlation_id, body = decode_response_header(header.api_key, version, sent[4:])
    assert correlation_id == header.correlation_id
    decode(response, version, body)


async def handled(world: BrokerWorld, client: Client, frame: bytes) -> "asyncio.Future[Any] | None":
    """What is still under way when nothing can happen any more without time passing."""
    try:
        handled = world.broker.handle(client.connection, memoryview(bytearray(frame)))
    except CloseConnection:
        return None
    if handled is None or isinstance(handled, list):
        assert_readable(frame, handled)
        return None
    under_way = asyncio.ensure_future(handled)
    await settled()
    if not under_way.done():
        return under_way
    with suppress(CloseConnection):
        assert_readable(frame, under_way.result())
    return None


async def served(world: BrokerWorld) -> None:
    topic = await world.topic("good")
    client = world.client()
    assert row_of(await client.ask(produce_request(topic, batch_of(3)), 9)).error_code == ErrorCode.NONE
    row = row_of(await client.ask(fetch_request(topic, {0: 0}), 12))
    assert (row.error_code, row.high_watermark) == (ErrorCode.NONE, 3)


@settings(max_examples=examples(25))
@given(
    st.lists(st.tuples(frames, st.sampled_from([0, 0, 0, 100, 5_000, 700_000])), min_size=1, max_size=25),
)
def test_whatever_comes_in_frames(sent: list[tuple[bytes, int]]) -> None:
    async def scenario(world: BrokerWorld) -> None:
        for topic in TOPICS:
            await world.topic(topic.name, 2)
        under_way: list[asyncio.Future[Any]] = []
        for frame, wait_ms in sent:
            left = await handled(world, world.client(), frame)
            if left is not None:
                under_way.append(left)
            if wait_ms:
                await world.pass_ms(wait_ms)
        for future in under_way:  # their connections are lost
            future.cancel()
        await settled()
        await served(world)

    errors = Errors()
    logging.getLogger("siltstone").addHandler(errors)
    try:
        in_broker_world(scenario)
    finally:
        logging.getLogger("siltstone").removeHandler(errors)
    assert errors.texts == []
