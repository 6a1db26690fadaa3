"""One broker for the tests of a module, with the module's ``BROKER_SETTINGS``; every topic is of one test alone."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count

import pytest

import siltstone
from support.kafka.raw_calls import RawTopic, create_topic
from support.kafka.raw_kafka import Address, RawConnection, address_of

NAMES = count()


@pytest.fixture(scope="module")
def broker(request: pytest.FixtureRequest) -> Iterator[siltstone.Broker]:
    with siltstone.Broker(settings=getattr(request.module, "BROKER_SETTINGS", {})) as running:
        yield running


@pytest.fixture(scope="module")
def address(broker: siltstone.Broker) -> Address:
    return address_of(broker.bootstrap_servers)


@pytest.fixture
def connect(address: Address) -> Iterator[Callable[[], RawConnection]]:
    """More connections; all are closed when the test ends."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(RawConnection(address))


@pytest.fixture
def connection(connect: Callable[[], RawConnection]) -> RawConnection:
    return connect()


@pytest.fixture
def free_name(request: pytest.FixtureRequest) -> str:
    """Of a topic or group that nobody else uses."""
    return f"{re.sub('[^a-z0-9]+', '-', request.node.name)[:80]}-{next(NAMES)}"


@pytest.fixture
def new_topic(connect: Callable[[], RawConnection], free_name: str) -> Callable[..., RawTopic]:
    """``new_topic(partitions, **{"max.message.bytes": "1000"})``"""
    made = count()

    def make(partitions: int = 1, **configs: str) -> RawTopic:
        return create_topic(connect(), f"{free_name}-{next(made)}", partitions, configs)

    return make


@pytest.fixture
def topic(new_topic: Callable[..., RawTopic]) -> RawTopic:
    return new_topic()
