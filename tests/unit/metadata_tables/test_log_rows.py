"""The log as rows: every kind of record, no secret, times that never go back."""

import json

import pytest

from siltstone.metadata.records import KeySet, ObjectCommitted, Record, ScramCredentialSet
from siltstone.metadata_tables.log_rows import fields_text
from siltstone.model.objects import ObjectKind, ObjectRange
from support.metadata import metadata_records
from support.metadata.queried_store import queried, queried_world

EVERY = [
    record
    for value in vars(metadata_records).values()
    if isinstance(value, tuple)
    for record in value
    if isinstance(record, Record)
]


@pytest.mark.parametrize("record", EVERY, ids=lambda record: type(record).__name__)
def test_every_record_has_its_fields_as_json(record: Record) -> None:
    fields = json.loads(fields_text(record))
    assert fields or not record.__struct_fields__
    assert set(fields) <= {*record.__struct_fields__, "value_bytes"}


def test_no_secret_is_shown() -> None:
    secret = ScramCredentialSet("ada", 1, b"salt" * 4, b"stored" * 5, b"server" * 5, 4096)
    assert json.loads(fields_text(secret)) == {"user": "ada", "mechanism": 1, "rounds": 4096}
    assert json.loads(fields_text(KeySet("node-secrets", b"hunter2"))) == {
        "key": "node-secrets",
        "value_bytes": 7,
    }
    assert json.loads(fields_text(KeySet("security/salt-secret", b"x"))) == {
        "key": "security/salt-secret",
        "value_bytes": 1,
    }
    shown = fields_text(KeySet("store/bucket/0", b"s3://key:hunter2@bucket"))
    assert "hunter2" not in shown and "s3://key:****@bucket" in shown


def test_bytes_that_are_no_text_are_counted() -> None:
    assert json.loads(fields_text(KeySet("store/x", b"\xff\xfe"))) == {"key": "store/x", "value_bytes": 2}


def test_a_long_list_is_cut() -> None:
    ranges = tuple(ObjectRange(number, 5, 0, 1, 10, -1) for number in range(5))
    fields = json.loads(fields_text(ObjectCommitted(5, ObjectKind.STREAM_OBJECT, 50, 7, 7, ranges), 2))
    assert [each if isinstance(each, str) else each["stream_id"] for each in fields["ranges"]] == [
        0,
        1,
        "and 3 more",
    ]
    assert fields["kind"] == "STREAM_OBJECT"


def test_a_row_for_each_record_in_the_order_of_the_log() -> None:
    world = queried_world()
    rows = queried(world).log.rows()
    assert [(row["version"], row["record"]) for row in rows] == [
        (version, type(record).__name__)
        for version, records in enumerate(world.log, start=1)
        for record in records
    ]
    assert [row["position"] for row in rows][:1] == [0]
    times = [row["known_at"] for row in rows if row["known_at"]]
    assert times == sorted(times) and len(set(times)) == 4
    assert "very secret" not in str(rows) and "secret@" not in str(rows)


def test_one_topic_has_the_records_that_concern_it() -> None:
    rows = queried().log.rows(topic="planes")
    assert [row["record"] for row in rows] == [
        "StreamCreated", "StreamCreated", "TopicCreated", "StreamOpened", "StreamOpened", "ObjectCommitted",
        "StreamsAdvanced",
    ]  # fmt: skip
