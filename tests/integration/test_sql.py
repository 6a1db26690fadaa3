"""``siltstone sql`` on a real store: fresh each time, typed, and shut off from files."""

import datetime
import json
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import siltstone
from siltstone.cli.main import cli
from siltstone.metadata_tables.reading import read_tables
from siltstone.model.errors import InvalidRequest
from siltstone.scanning.failures import TailNotReadable
from siltstone.scanning.querying import QueryChoice, QueryRefused, run_query, topics_named
from support.kafka.quiet_client import QUIET

pytestmark = pytest.mark.xdist_group("sql")  # the tests share a broker and its topics


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[siltstone.Broker]:
    with siltstone.Broker(tmp_path_factory.mktemp("sql") / "store") as running:
        yield running


def produce(
    broker: siltstone.Broker, topic: str, values: list[bytes | None], key: bytes | None = None
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    for value in values:
        producer.produce(topic, value, key)
    assert producer.flush(60) == 0


def create(broker: siltstone.Broker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, **QUIET})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(60)


def rows(broker: siltstone.Broker, text: str, words: QueryChoice | None = None) -> list[tuple[object, ...]]:
    with siltstone.open_store(broker.folder) as store, run_query(store.context, text, words) as found:
        return list(found.rows)


def of_metadata(broker: siltstone.Broker, text: str, **moment: int) -> list[tuple[object, ...]]:
    with siltstone.open_store(broker.folder) as store:
        tables = read_tables(store.settings, lambda: nullcontext(store.context), **moment)
        with run_query(store.context, text, metadata=tables) as found:
            return list(found.rows)


def test_the_metadata_is_a_schema_beside_the_topics(broker: siltstone.Broker) -> None:
    """A topic may have the name of a table of the metadata, alone or with the schema in front of it."""
    for topic in ("objects", "siltstone.objects"):
        create(broker, topic)
        produce(broker, topic, [b"one"])
    found = of_metadata(broker, "select topic, partitions from siltstone.topics where topic like '%objects'")
    assert found == [("objects", 1), ("siltstone.objects", 1)]
    text = "select t.topic, o.value from SILTSTONE.topics t, objects o where t.topic = 'objects'"
    assert of_metadata(broker, text) == [("objects", "one")]
    assert of_metadata(broker, 'select value from "siltstone.objects"') == [("one",)]
    joined = """select count(*) from "siltstone"."partitions" join siltstone.topics t using (topic)
                where t.topic = 'objects'"""
    assert of_metadata(broker, joined) == [(1,)]
    assert of_metadata(broker, "select count(*) from siltstone.topics", version=0) == [(0,)]


def test_an_unknown_table_of_the_metadata_is_named_with_what_there_is(broker: siltstone.Broker) -> None:
    with pytest.raises(QueryRefused, match=r"there is no table siltstone\.objcts: did you mean object"):
        of_metadata(broker, "select * from siltstone.objcts")
    with pytest.raises(QueryRefused, match="the tables are topics, partitions, "):
        of_metadata(broker, "select * from siltstone.xyz")


def test_the_command_reads_earlier_metadata(broker: siltstone.Broker) -> None:
    arguments = [
        "sql",
        "--store",
        str(broker.folder),
        "select count(*) as n from siltstone.topics",
        "--format",
        "csv",
    ]
    create(broker, "counted")
    shown = [
        CliRunner().invoke(cli, [*arguments, *options]).stdout.split()
        for options in (["--metadata-version", "0"], ["--as-of", "@1"], [])
    ]
    assert shown[:2] == [["n", "0"], ["n", "0"]] and int(shown[2][1]) > 0
    both = CliRunner().invoke(cli, [*arguments, "--metadata-version", "0", "--as-of", "@1"])
    beyond = CliRunner().invoke(cli, [*arguments, "--metadata-version", "99999"])
    assert "a version and a time are given" in both.output
    assert "the oldest possible is 0" in beyond.output


def test_each_query_sees_what_was_acknowledged_before_it(broker: siltstone.Broker) -> None:
    create(broker, "flights")
    produce(
        broker,
        "flights",
        [json.dumps({"carrier": carrier, "n": 1}).encode() for carrier in ("UA", "AA", "UA")],
    )
    text = "select carrier, count(*) from flights group by 1 order by 1"
    assert rows(broker, text) == [("AA", 1), ("UA", 2)]
    produce(broker, "flights", [b'{"carrier": "AA", "n": 5}'])
    assert rows(broker, text) == [("AA", 2), ("UA", 2)]
    joined = "with f as (select * from flights) select count(*) from f a join f b using (carrier)"
    assert rows(broker, joined) == [(8,)], "a table may be read several times"


def test_a_value_that_does_not_fit_is_null_and_counted(broker: siltstone.Broker) -> None:
    create(broker, "mixed")
    produce(broker, "mixed", [b'{"a": 1}'] * 1_000 + [b"nonsense"], b"\xff")
    with siltstone.open_store(broker.folder) as store:
        text = "select count(a), count(*), min(kafka.key), max(kafka.offset) from mixed"
        with run_query(store.context, text) as found:
            assert list(found.rows) == [(1_000, 1_001, "ff", 1_000)]
            assert found.notes[0].startswith(
                "mixed: null instead of 1 value that cannot be decoded; the first: offset 1000"
            )


def test_ci26_columns_are_found_in_a_query(broker: siltstone.Broker) -> None:
    """The fields, what is rescued, and the record as other queries have it."""
    create(broker, "clicks")
    values: list[bytes | None] = [b'{"page": "/", "user": {"id": 7}}', b'{"page": "/a", "day": "2026-11-29"}']
    produce(broker, "clicks", [*values, b'{"page": {"odd": 1}}', b"no JSON", None], b"\xff")
    text = (
        "select page, user.id, day, _rescued_data, kafka.offset, kafka.key from clicks order by kafka.offset"
    )
    with siltstone.open_store(broker.folder) as store:
        with run_query(store.context, text, QueryChoice(columns="infer, day date")) as found:
            assert list(found.rows) == [
                ('"/"', 7, None, None, 0, "ff"),
                ('"/a"', None, datetime.date(2026, 11, 29), None, 1, "ff"),
                ('{"odd": 1}', None, None, None, 2, "ff"),
                (None, None, None, '"no JSON"', 3, "ff"),
                (None, None, None, None, 4, "ff"),
            ]
            assert found.notes == ("clicks: 1 row with values in _rescued_data, where no column fits",)
        with run_query(store.context, "describe clicks", QueryChoice(columns="infer")) as found:
            assert [row[0] for row in found.rows] == ["page", "user", "day", "_rescued_data", "kafka"]
            assert found.notes[0].startswith("clicks: 1 row ")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (QueryChoice(columns="carrier string"), "not have the word infer"),
        (QueryChoice("avro", columns="infer"), "finds the fields"),
        (QueryChoice(columns="infer, at nothing"), "nothing"),
    ],
)
def test_ci26_columns_that_no_query_finds(broker: siltstone.Broker, words: QueryChoice, reason: str) -> None:
    create(broker, topic := f"asked-{abs(hash(words))}")
    with pytest.raises(InvalidRequest, match=reason):
        rows(broker, f'select * from "{topic}"', words)


def test_ci26_a_topic_without_records_has_the_columns_of_its_records(broker: siltstone.Broker) -> None:
    create(broker, "silent")
    arguments = ["sql", "--store", str(broker.folder), "--columns", "infer", "--format", "csv"]
    shown = CliRunner().invoke(cli, [*arguments, "describe silent"])
    assert [line.split(",")[0] for line in shown.stdout.splitlines()[1:]] == ["_rescued_data", "kafka"]


def test_text_and_bytes_are_one_column(broker: siltstone.Broker) -> None:
    create(broker, "my-text")
    create(broker, "bytes")
    produce(broker, "my-text", [b"x", None, b"[1]"])
    produce(broker, "bytes", [b"\xff"])
    assert rows(broker, 'select value, kafka.offset from "my-text" order by 2') == [
        ("x", 0),
        (None, 1),
        ("[1]", 2),
    ]
    assert rows(broker, "select value from bytes") == [(b"\xff",)]
    assert rows(broker, "select value from flights limit 1", QueryChoice("raw"))[0][0].startswith(b"{")


def test_a_query_reads_no_file_and_its_errors_are_one_line(broker: siltstone.Broker) -> None:
    for text, reason in (
        ("select * from nothing", r"no topic nothing: the topics are .*flights"), ("selec", "syntax error"),
        ("select * from my.topic", r'because schema "my" does not exist.*; topics in the query: none'),
        ("select * from flihgts", r"no topic flihgts: did you mean flights\?"),
        ("select * from read_csv('/etc/hostname')", "disabled"), ("copy flights to 'x.csv'", "disabled"),
        ("set enable_external_access = true", "."),
    ):  # fmt: skip
        with pytest.raises(QueryRefused, match=reason) as refused:
            rows(broker, text)
        assert "\n" not in str(refused.value)


def test_an_unknown_topic_in_a_store_of_many_topics_names_five_of_them(broker: siltstone.Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for made in admin.create_topics([NewTopic(f"a{number}", 1) for number in range(6)]).values():
        made.result(60)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", **QUIET})
    consumer.commit(offsets=[TopicPartition("a0", 0, 0)], asynchronous=False)
    consumer.close()
    with pytest.raises(QueryRefused, match=r"the topics are a0, a1, a2, a3, a4 and \d+ more$"):
        rows(broker, "select * from nothing")


def test_the_tail_is_left_out_also_while_the_kind_of_the_values_is_guessed(tmp_path: Path) -> None:
    """As of a broker that was killed: its streams stay open, and it cannot be asked."""
    with siltstone.Broker(tmp_path / "store") as broker:
        create(broker, "t")
        produce(broker, "t", [b"1"])
        broker.flush()
        produce(broker, "t", [b"2"])
        shutil.copytree(tmp_path / "store", tmp_path / "copy", ignore=shutil.ignore_patterns("*-leases*"))
    with siltstone.open_store(tmp_path / "copy") as store:
        with run_query(store.context, "select value from t", QueryChoice(tail="committed")) as found:
            assert list(found.rows) == [("1",)]
        with (
            pytest.raises(TailNotReadable, match="--tail committed"),
            run_query(store.context, "select value from t"),
        ):
            pass


@pytest.mark.parametrize("text", ["", " ;; ", "-- nothing"])
def test_an_empty_query_is_refused(broker: siltstone.Broker, text: str) -> None:
    with pytest.raises(QueryRefused, match="the query is empty"):
        rows(broker, text)


@pytest.mark.parametrize(
    "text",
    [
        "drop table flights", "delete from flights", "truncate flights", "update flights set n = 0",
        "insert into flights select * from flights", "alter table flights drop n",
        "select 1; drop table flights", "with f as (select 1) delete from flights",
    ],
)  # fmt: skip
def test_what_looks_as_if_it_changed_a_topic_is_refused(broker: siltstone.Broker, text: str) -> None:
    """It changed a temporary table, and "Success" was printed."""
    with pytest.raises(QueryRefused, match="is not allowed: a query reads topics and changes none"):
        rows(broker, text)


def test_topics_that_differ_in_case_alone_are_read_by_their_exact_names(broker: siltstone.Broker) -> None:
    for topic, value in (("Cased", '{"n": 1}'), ("cased", '{"n": 2}')):
        create(broker, topic)
        produce(broker, topic, [value])
    assert rows(broker, "select n from Cased") == [(1,)]
    assert rows(broker, 'select n from "cased"') == [(2,)]
    for text in ("select n from CASED", "select * from Cased, cased"):
        with pytest.raises(QueryRefused, match="differ in upper and lower case only"):
            rows(broker, text)


def test_a_topic_is_found_in_a_text_as_a_word() -> None:
    topics = ["a", "flights", "flights-2", "my.topic", "Upper"]
    assert topics_named('select data from flights join "my.topic" using (x), upper', topics) == [
        "Upper", "flights", "my.topic",
    ]  # fmt: skip
    assert topics_named('select * from "flights-2"', topics) == ["flights-2"]


def test_the_formats(broker: siltstone.Broker) -> None:
    def printed(*words: str) -> str:
        done = CliRunner().invoke(cli, ["sql", *words, "--store", str(broker.folder)])
        assert done.exit_code == 0, done.output
        return done.stdout

    text = "select carrier, kafka.partition as p, null as x from flights order by n desc limit 1"
    assert json.loads(printed(text, "--format", "json")) == {"carrier": "AA", "p": 0, "x": None}
    assert printed(text, "--format", "csv").splitlines() == ["carrier,p,x", "AA,0,"]
    assert printed(text).split()[:3] == ["carrier", "p", "x"]
