"""How a stream learns the name of its query: the question to a task, and what becomes of the answer."""

from pathlib import Path
from typing import Any

import pytest

from siltstone.kafka_client.groups import QueryText, query_of_text
from siltstone.model.limits import DAY_MS
from siltstone.offline.tasks.source_bytes import store_at
from siltstone.scanning.streaming.query_names import (
    ASKED_MAX,
    FOLDER,
    NAME_CHARACTERS_MAX,
    QueryNaming,
    QueryQuestion,
    StreamQuery,
    answer,
)
from support.maintenance.keyed_world import KeyedWorld, keyed_world

ORDERS = StreamQuery("orders", "id-1")


@pytest.fixture
def world() -> Any:
    with keyed_world() as made:
        yield made


def test_the_answer_of_a_task_is_read_once_and_deleted(world: KeyedWorld) -> None:
    naming, url = QueryNaming(), world.store.url
    assert naming.learned() is None, "nobody was asked"
    question = naming.ask(world.context, url)
    assert question is not None and question.key.startswith(FOLDER)
    for query in (ORDERS, StreamQuery("another attempt", "id-1")):
        answer(question, query)
    assert naming.learned() == ORDERS
    assert not list(world.store.list(FOLDER)) and naming.learned() is None


def test_a_query_whose_tasks_do_not_answer_is_asked_a_few_times(world: KeyedWorld) -> None:
    naming = QueryNaming()
    for _ in range(ASKED_MAX):
        assert naming.ask(world.context, world.store.url) is not None
        assert naming.learned() is None
    assert naming.ask(world.context, world.store.url) is None


def test_a_damaged_answer_and_a_bucket_that_cannot_be_written_stop_nothing(
    world: KeyedWorld, tmp_path: Path
) -> None:
    naming = QueryNaming()
    question = naming.ask(world.context, world.store.url)
    assert question is not None
    world.store.put(question.key, (b"{",))
    assert naming.learned() is None
    (tmp_path / "file").touch()
    answer(QueryQuestion((tmp_path / "file").as_uri(), f"{FOLDER}x.json"), ORDERS)


def test_answers_of_queries_that_ended_are_deleted_by_later_ones(world: KeyedWorld) -> None:
    store = store_at(world.store.url)
    answer(QueryQuestion(store.url, f"{FOLDER}old.json"), ORDERS)
    world.clock.advance_ms(DAY_MS + 1)
    answer(QueryQuestion(store.url, f"{FOLDER}new.json"), ORDERS)
    QueryNaming().ask(world.context, store.url)
    assert [each.key for each in store.list(FOLDER)] == [f"{FOLDER}new.json"]


def test_the_group_has_the_name_of_the_query_or_its_id() -> None:
    assert (ORDERS.group_id, StreamQuery("", "0f").group_id) == ("orders", "spark-0f")
    assert len(StreamQuery("x" * 900, "0f").group_id) == NAME_CHARACTERS_MAX


def test_the_text_beside_an_offset_names_the_query_and_others_are_not_taken_for_it() -> None:
    text = '{"siltstone_query":"orders","id":"id-1","records":3,"bytes":9,"seconds":1.5,"host":"worker-1"}'
    assert query_of_text(text) == QueryText("orders", "id-1", 3, 9, 1.5, "worker-1")
    for other in ("", "{}", '{"siltstone_query":1}', "note"):
        assert query_of_text(other) is None
