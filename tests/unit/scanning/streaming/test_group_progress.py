"""A group that the user named has to work; one that a query has by default ends no query."""

from types import SimpleNamespace
from typing import Any

import pytest

from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.connection import Security
from siltstone.kafka_client.failures import (
    BrokerGone,
    BrokerNotTrusted,
    BrokerWithoutTls,
    LoginRefused,
    MechanismNotOffered,
)
from siltstone.metadata.entities import NodeState
from siltstone.metadata.node_address import CLUSTER_ID_KEY, put_node_address
from siltstone.runtime.clock import ManualClock
from siltstone.runtime.randomness import seeded_randomness
from siltstone.scanning.streaming import group_progress as module
from siltstone.scanning.streaming.advancing import StreamLag
from siltstone.scanning.streaming.group_progress import PAUSE_MS, UNASKED_PAUSE_MS, StreamGroupProgress
from siltstone.scanning.streaming.position import StreamPosition
from siltstone.scanning.streaming.query_names import StreamQuery

TOPIC_ID = "0f" * 16
QUERY = StreamQuery("daily", "id-1")
TO_CORRECT = [LoginRefused("ada"), BrokerNotTrusted("an authority")]
OF_ANOTHER_PROTOCOL = [BrokerWithoutTls("no TLS"), MechanismNotOffered("no login")]


class World:
    """A store with one broker. ``trouble`` is raised when it is connected to."""

    def __init__(self) -> None:
        self.trouble: Exception | None = None
        self.committed: list[dict[TopicPartition, int]] = []
        self.clock = ManualClock()
        put = put_node_address(1, "127.0.0.1:1001")
        image = SimpleNamespace(
            keys={put.key: put.value, CLUSTER_ID_KEY: b"cluster"},
            nodes={1: SimpleNamespace(node_id=1, state=NodeState.LIVE, listeners=())},
            topics={TOPIC_ID: None},
        )
        self.source: Any = SimpleNamespace(
            metadata=SimpleNamespace(refresh=lambda: image), clock=self.clock, rng=seeded_randomness(1),
            security=Security(),
        )  # fmt: skip

    def __enter__(self) -> "World":
        if self.trouble is not None:
            raise self.trouble
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def commit(self, progress: StreamGroupProgress, offset: int) -> None:
        position = StreamPosition("x", {TOPIC_ID: "t"}, {(TOPIC_ID, 0): offset})
        progress.commit(self.source, position, StreamLag)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(module, "Cluster", lambda *_: made)
    monkeypatch.setattr(module, "refuse_stranger", lambda *_: None)
    monkeypatch.setattr(module, "committed_texts", lambda _, groups: {each: {} for each in groups})
    monkeypatch.setattr(
        module, "commit_offsets", lambda cluster, group, offsets, text: made.committed.append(offsets)
    )
    return made


@pytest.mark.parametrize("trouble", [BrokerGone("no answer"), *TO_CORRECT, *OF_ANOTHER_PROTOCOL])
def test_the_group_that_a_query_has_by_default_never_ends_it(world: World, trouble: Exception) -> None:
    progress = StreamGroupProgress("daily", QUERY)
    world.trouble = trouble
    world.commit(progress, 1)
    world.trouble = None
    world.commit(progress, 2)
    assert world.committed == [], "it is left alone for a while"
    world.clock.advance_ms(UNASKED_PAUSE_MS)
    world.commit(progress, 3)
    assert world.committed == [{TopicPartition("t", 0): 3}]


@pytest.mark.parametrize("trouble", [*TO_CORRECT, *OF_ANOTHER_PROTOCOL])
def test_settings_that_do_not_fit_a_group_that_the_user_named_are_an_error(
    world: World, trouble: Exception
) -> None:
    world.trouble = trouble
    with pytest.raises(type(trouble)):
        world.commit(StreamGroupProgress("g"), 1)


@pytest.mark.parametrize("trouble", [BrokerGone("no answer"), *OF_ANOTHER_PROTOCOL])
def test_a_listener_that_changes_is_waited_for_after_the_first_commit(
    world: World, trouble: Exception
) -> None:
    progress = StreamGroupProgress("g")
    world.commit(progress, 1)
    world.trouble = trouble
    world.commit(progress, 2)
    world.trouble = None
    world.clock.advance_ms(PAUSE_MS)
    world.commit(progress, 3)
    assert world.committed == [{TopicPartition("t", 0): 1}, {TopicPartition("t", 0): 3}]


def test_a_password_that_is_refused_later_is_an_error_as_well(world: World) -> None:
    progress = StreamGroupProgress("g")
    world.commit(progress, 1)
    world.trouble = LoginRefused("ada")
    with pytest.raises(LoginRefused):
        world.commit(progress, 2)
