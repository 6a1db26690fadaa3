"""The decisions about flushes: a live node gets numbered requests, and its newest life answers."""

import msgspec
import pytest

from siltstone.metadata.flushes import (
    AnswerFlush,
    AskFlush,
    NodeFlushes,
    encode_flushes,
    flush_key,
    flushes_of,
)
from siltstone.metadata.image import MetadataImage
from support.metadata.metadata_world import MetadataWorld


@pytest.fixture
def world() -> MetadataWorld:
    world = MetadataWorld()
    world.register(0)
    return world


def test_each_question_has_a_number_and_an_answer_is_for_all_up_to_its_own(world: MetadataWorld) -> None:
    assert flushes_of(world.image, 0) == NodeFlushes()
    assert [world.do(AskFlush(0)) for _ in range(3)] == [1, 2, 3]
    assert world.outcome(AnswerFlush(0, 1, 2)) == ("OK", 1)
    assert flushes_of(world.image, 0) == NodeFlushes(asked=3, answered=2)
    assert world.outcome(AnswerFlush(0, 1, 2)) == ("OK", 0)
    assert world.outcome(AnswerFlush(0, 1, 1)) == ("OK", 0), "an answer never goes back"
    assert world.outcome(AnswerFlush(0, 1, 4)) == ("INVALID_REQUEST", 0)
    assert flushes_of(world.image, 7) == NodeFlushes()


def test_rule_7_an_earlier_life_of_the_node_answers_nothing(world: MetadataWorld) -> None:
    world.do(AskFlush(0))
    world.register(0, "second")
    assert world.outcome(AnswerFlush(0, 1, 1)) == ("NODE_EPOCH_EXPIRED", 0)
    assert world.outcome(AnswerFlush(0, 2, 1)) == ("OK", 1)


def test_a_node_that_is_not_live_is_not_asked(world: MetadataWorld) -> None:
    assert world.outcome(AskFlush(5)) == ("NODE_EPOCH_NOT_EXIST", 0)
    world.do(AskFlush(0))
    world.fence(0)
    assert world.outcome(AskFlush(0)) == ("NODE_SUSPENDED", 0)
    assert world.outcome(AnswerFlush(0, 1, 1)) == ("NODE_SUSPENDED", 0)


def test_a_node_whose_log_another_one_replays_is_not_asked(world: MetadataWorld) -> None:
    world.fail_over(0)
    assert world.outcome(AskFlush(0)) == ("NODE_SUSPENDED", 0)


def test_a_value_of_another_version_is_refused() -> None:
    value = msgspec.msgpack.encode((2, 0, 0))
    image = msgspec.structs.replace(MetadataImage(), keys={flush_key(0): value})
    with pytest.raises(msgspec.ValidationError, match="version 2"):
        flushes_of(image, 0)
    assert encode_flushes(NodeFlushes(asked=300, answered=7)).hex() == "9301cd012c07"
