"""Fixtures for tests that need Kafka: pytest finds them when siltstone is installed.

``siltstone_broker`` is one broker for the whole session, started when the first test asks for it: tests keep apart by
the names of their topics and groups (``siltstone_topic`` makes one). Override ``siltstone_settings`` to change it.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

from siltstone.runtime.randomness import random_token, system_randomness

if TYPE_CHECKING:
    from siltstone.server.embedded import Broker

NAME_CHARACTERS_MAX = 100


@pytest.fixture(scope="session")
def siltstone_settings() -> Mapping[str, str]:
    """Settings of ``siltstone_broker``, by key: ``{"broker.num_partitions": "4"}``."""
    return {}


@pytest.fixture(scope="session")
def siltstone_broker(siltstone_settings: Mapping[str, str]) -> "Iterator[Broker]":
    """A running broker; ``siltstone_broker.bootstrap_servers`` is what clients need."""
    from siltstone.server.embedded import Broker  # noqa: PLC0415 - only tests that use it pay for a server

    with Broker(settings=siltstone_settings) as broker:
        yield broker


@pytest.fixture
def siltstone_topic(request: pytest.FixtureRequest) -> str:
    """A topic name of this test alone. Nothing creates it: the first client that uses it does."""
    name = "".join(character if character.isalnum() else "-" for character in request.node.name)
    return f"{name[:NAME_CHARACTERS_MAX]}-{random_token(system_randomness())[:8]}"
