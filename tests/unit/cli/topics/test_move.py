"""``siltstone topics move``. The broker of these tests is the only node, so what is asked of the others is recorded."""

from collections.abc import Iterator
from typing import Any

import pytest

from siltstone.cli.topics import move as module
from siltstone.cli.topics.move import MOVE_LOOK_INTERVAL_MS, WAIT_MS_MAX, StillMoving, _in_words, _wait
from siltstone.kafka_client.cluster import TopicPartition
from siltstone.runtime.clock import ManualClock
from support.broker.in_process import InProcessBroker
from support.processes.cli import assert_one_line

Moves = list[tuple[list[str], int]]


@pytest.fixture
def moves(broker: InProcessBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Moves]:
    """What was asked for, and at which node. Topics t with three partitions and u with one; moves end at once."""
    asked: Moves = []
    broker.siltstone("topics", "create", "t", "--partitions", 3)
    broker.siltstone("topics", "create", "u")
    monkeypatch.setattr(
        module, "move_partitions", lambda _, partitions, node: asked.append(([*map(str, partitions)], node))
    )
    monkeypatch.setattr(module, "still_moving", lambda *_: [])
    return asked


def test_all_partitions_of_topics_or_those_after_the_colon(broker: InProcessBroker, moves: Moves) -> None:
    told = broker.siltstone("topics", "move", "t", "--to", 4)
    assert told.out == "3 partitions moved to node 4.\n"
    told = broker.siltstone("topics", "move", "u", "t:2,0", "--to", 1, "--json")
    assert told.json == {"to": 1, "partitions": (named := ["u-0", "t-0", "t-2"]), "moved": named}
    assert broker.siltstone("topics", "move", "u", "--to", 1).out == "1 partition moved to node 1.\n"
    assert moves == [(["t-0", "t-1", "t-2"], 4), (["u-0", "t-0", "t-2"], 1), (["u-0"], 1)]


def test_a_partition_that_is_named_twice_is_moved_once(broker: InProcessBroker, moves: Moves) -> None:
    told = broker.siltstone("topics", "move", "t:0", "t", "t:1,1", "t", "--to", 4)
    assert told.out == "3 partitions moved to node 4.\n"
    assert moves == [(["t-0", "t-1", "t-2"], 4)]


@pytest.mark.parametrize("name", ["t:", "t:x", "t:0,", "t:-1", "t:1 2", "t:٣"])
def test_what_are_no_numbers_of_partitions_is_refused(
    broker: InProcessBroker, moves: Moves, name: str
) -> None:
    refused = broker.siltstone("topics", "move", name, "--to", 4)
    assert_one_line(refused, 2, f"{name} does not name partitions: write t:0,1 or t")
    assert moves == []


def test_topics_and_partitions_that_are_not_there_are_refused(broker: InProcessBroker, moves: Moves) -> None:
    assert broker.siltstone("topics", "move", "u", "nosuch", "--to", 4).status == 2
    assert_one_line(broker.siltstone("topics", "move", "t:0,3", "--to", 4), 2, "t has no partition 3")
    assert moves == []


def test_the_broker_is_asked_and_its_refusal_told(broker: InProcessBroker) -> None:
    broker.siltstone("topics", "create", "t", "--partitions", 2)
    own = broker.siltstone("topics", "describe", "t", "--json").json["partitions"][0]["leader"]
    moved = broker.siltstone("topics", "move", "t", "--to", own)
    assert moved.out == f"Node {own} leads all 2 already: nothing was moved.\n"
    moved = broker.siltstone("topics", "move", "t:1", "--to", own, "--json")
    assert moved.json == {"to": own, "partitions": ["t-1"], "moved": []}
    assert_one_line(broker.siltstone("topics", "move", "t", "--to", own + 9), 2, "t-0")


class Looks:
    """A cluster whose clock advances only when code waits on it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.waited: list[float] = []
        self.clock.block_ms = self._block_ms

    def _block_ms(self, duration_ms: float) -> None:
        self.waited.append(duration_ms)
        self.clock.advance_ms(duration_ms)


def test_a_move_is_looked_at_until_it_has_ended_or_a_minute_has_passed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = [TopicPartition("t", 0), TopicPartition("t", 1)]
    left: Iterator[list[TopicPartition]] = iter([wanted, wanted[:1], []])
    monkeypatch.setattr(module, "still_moving", lambda *_: next(left))
    cluster: Any = Looks()
    _wait(cluster, wanted)
    assert cluster.waited == [MOVE_LOOK_INTERVAL_MS] * 2
    monkeypatch.setattr(module, "still_moving", lambda *_: wanted[1:])
    with pytest.raises(
        StillMoving, match=r"^1 partition did not arrive in a minute; .* the node that leads t-1$"
    ):
        _wait(cluster, wanted)
    assert WAIT_MS_MAX <= sum(cluster.waited[2:]) <= WAIT_MS_MAX + MOVE_LOOK_INTERVAL_MS


@pytest.mark.parametrize(
    ("leaders", "words"),
    [
        ([4], "Node 4 leads it already: nothing was moved."),
        ([4, 4], "Node 4 leads all 2 already: nothing was moved."),
        ([0, 4, 0], "2 partitions moved to node 4, which led 1 already."),
        ([0], "1 partition moved to node 4."),
    ],
)
def test_partitions_that_the_node_leads_already_are_not_said_to_be_moved(
    leaders: list[int], words: str
) -> None:
    assert _in_words(4, leaders) == words
