"""What ``tables explain`` says of a topic's table and its next export, from configurations and plans as values."""

from types import SimpleNamespace
from typing import Any

import pytest

from siltstone.carrying.pipeline.kind import Unplanned
from siltstone.cli.tables.explain import _configured, _now
from siltstone.maintenance.overview import KindOverview, Waiting
from siltstone.metadata.entities import TopicMetadata
from siltstone.model.limits import MIB, MINUTE_MS
from siltstone.tables.planning import TopicExport
from siltstone.topic_configs.table import stored_topic_config

PARQUET = {"siltstone.table.format": "parquet"}
PLAN: Any = SimpleNamespace(reason="2.0 MiB are new")
KEPT = Unplanned("t", "all that is in objects is in its table")
FAILED = Waiting("t", "the bucket is out", 3, 0)


def told(**configs: str) -> dict[str, str]:
    given = PARQUET | {name.replace("_", "."): value for name, value in configs.items()}
    config = stored_topic_config(given, {})
    topic = TopicMetadata("ab" * 16, "t", (), given, 1, 0, is_internal=False)
    return dict(_configured(TopicExport(topic, config.table), config))


def test_the_format_and_when_the_topic_is_exported() -> None:
    found = told(siltstone_table_bytes_min=str(3 * MIB), siltstone_table_interval_ms=str(2 * MINUTE_MS))
    assert (found["format"], found["exported"]) == ("parquet", "at 3.0 MiB, or every 2 minutes")


def test_the_columns_are_the_fields_of_the_values_or_those_of_kafka_s_records() -> None:
    assert told()["values"] == "raw; the columns of Kafka's records"
    typed = told(siltstone_table_value="json", siltstone_table_columns="carrier string, delay long")
    assert typed["values"] == "json; columns carrier string, delay long, and kafka"


@pytest.mark.parametrize(
    ("configs", "words"),
    [
        ({}, "what retention removes before its export is missing from the table, and counted"),
        ({"cleanup_policy": "compact"}, "what key compaction removes before its export is missing"),
        ({"cleanup_policy": "compact", "siltstone_table_retention": "true"}, "wait for the table"),
        ({"siltstone_table_retention": "true"}, "retention and key compaction wait for the table"),
    ],
)
def test_what_happens_to_records_that_are_removed_before_their_export(configs: dict, words: str) -> None:
    assert words in told(**configs)["retention"]


@pytest.mark.parametrize(
    ("planned", "words"),
    [
        (KindOverview("k", (PLAN,), (FAILED,), (KEPT,), trouble="no catalog"), "no catalog"),
        (KindOverview("k", (PLAN,), (FAILED,), (KEPT,)), "waits, after 3 failures: the bucket is out"),
        (KindOverview("k", (PLAN,), (), (KEPT,)), "will be exported: 2.0 MiB are new"),
        (KindOverview("k", (), (), (KEPT,)), "is not exported: all that is in objects is in its table"),
    ],
)
def test_what_the_next_run_would_do_begins_with_what_prevents_it(planned: KindOverview, words: str) -> None:
    assert _now(planned) == words
