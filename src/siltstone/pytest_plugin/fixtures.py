"""Fixtures for tests that need Kafka; pytest finds them when siltstone is installed.

``siltstone_broker`` is one broker for the whole session, started when the first test uses it. Tests share it and use
different topics and groups; ``siltstone_topic`` is a topic name for one test, and ``siltstone_make_topic`` makes topics
with partitions and configurations. ``siltstone_own_broker`` is a broker for one test, which may stop, kill and restart
it. Override ``siltstone_settings`` to change the settings of the brokers, ``siltstone_users`` and ``siltstone_tls`` to
have them log clients in and encrypt, and ``siltstone_nodes`` for clusters.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

from siltstone.runtime.randomness import random_token, system_randomness

if TYPE_CHECKING:
    from siltstone.server.embedded import Broker

NAME_CHARACTERS_MAX = 100


@pytest.fixture(scope="session")
def siltstone_settings() -> Mapping[str, str]:
    """The settings of the brokers by key, such as ``{"broker.num_partitions": "4"}``; none by default."""
    return {}


@pytest.fixture(scope="session")
def siltstone_users() -> Mapping[str, str]:
    """The users of the brokers: name → password, such as ``{"ada": "pencil"}``. None by default, so that nobody logs
    in."""
    return {}


@pytest.fixture(scope="session")
def siltstone_tls() -> bool:
    """Whether the brokers encrypt (extra ``tls``)."""
    return False


@pytest.fixture(scope="session")
def siltstone_nodes() -> int:
    """How many nodes each broker has; more than one form a cluster."""
    return 1


@pytest.fixture(scope="session")
def siltstone_broker(
    siltstone_settings: Mapping[str, str],
    siltstone_users: Mapping[str, str],
    siltstone_tls: bool,
    siltstone_nodes: int,
) -> "Iterator[Broker]":
    """A running broker for the whole session; clients connect to ``siltstone_broker.bootstrap_servers``, or by
    ``siltstone_broker.client_config()``."""
    from siltstone.server.embedded import Broker  # noqa: PLC0415 - only tests that use it import a server

    with Broker(
        settings=siltstone_settings, users=siltstone_users, tls=siltstone_tls, nodes=siltstone_nodes
    ) as broker:
        yield broker


@pytest.fixture
def siltstone_own_broker(
    siltstone_settings: Mapping[str, str],
    siltstone_users: Mapping[str, str],
    siltstone_tls: bool,
    siltstone_nodes: int,
) -> "Iterator[Broker]":
    """A running broker for one test, with an empty store: the test may stop, kill and restart it, and set its
    ``faults``."""
    from siltstone.server.embedded import Broker  # noqa: PLC0415

    with Broker(
        settings=siltstone_settings, users=siltstone_users, tls=siltstone_tls, nodes=siltstone_nodes
    ) as broker:
        yield broker


@pytest.fixture
def siltstone_make_topic(request: pytest.FixtureRequest, siltstone_broker: "Broker") -> Callable[..., str]:
    """A function that creates a topic on ``siltstone_broker`` and returns its name, which no other test uses:
    ``siltstone_make_topic(partitions=3, config={"cleanup.policy": "compact"})``."""

    def make(*, partitions: int | None = None, config: Mapping[str, str] | None = None) -> str:
        return siltstone_broker.create_topic(_new_name(request), partitions=partitions, config=config)

    return make


@pytest.fixture
def siltstone_topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test uses. The fixture does not create the topic; the first client that uses it
    does."""
    return _new_name(request)


def _new_name(request: pytest.FixtureRequest) -> str:
    name = "".join(character if character.isalnum() else "-" for character in request.node.name)
    return f"{name[:NAME_CHARACTERS_MAX]}-{random_token(system_randomness())[:8]}"
