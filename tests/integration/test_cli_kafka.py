"""``siltstone topics|groups|produce|tail`` on a real broker, beside confluent-kafka as the judge.

With SILTSTONE_TEST_ORACLE set they run on Apache Kafka instead, to see that they are right.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

import msgspec
import pytest
from confluent_kafka import Consumer, Producer

from oracles.apache_kafka import running_apache_kafka
from siltstone.server.embedded import Broker
from support.kafka.kafka_oracles import or_skip
from support.processes.cli import Outcome, assert_one_line, run

ORACLE = bool(os.environ.get("SILTSTONE_TEST_ORACLE"))
NOON_MS = 1_372_680_000_000  # 2013-07-01 12:00 UTC


@pytest.fixture(scope="module")
def at(request: pytest.FixtureRequest) -> Iterator[str]:
    """The broker that every command speaks to: HOST:PORT."""
    if ORACLE:
        with or_skip(running_apache_kafka) as oracle:
            yield oracle.bootstrap_servers
        return
    broker: Broker = request.getfixturevalue("siltstone_broker")
    yield broker.bootstrap_servers


@pytest.fixture
def siltstone(at: str):
    def command(*words: object, stdin: bytes | None = None) -> Outcome:
        return run(*words, stdin=stdin, SILTSTONE_BOOTSTRAP=at)

    return command


@pytest.fixture
def topic(siltstone_topic: str, siltstone) -> str:
    assert siltstone("topics", "create", siltstone_topic, "--partitions", 3).status == 0
    return siltstone_topic


def shown(outcome: Outcome) -> list[dict]:
    assert outcome.status == 0, outcome
    return [msgspec.json.decode(line) for line in outcome.out.splitlines()]


def everything(siltstone, topic: str, *words: object) -> list[dict]:
    return shown(siltstone("tail", topic, "--from", "earliest", "--until-end", "--json", *words))


def consumed(at: str, topic: str, count: int) -> list:
    consumer = Consumer({"bootstrap.servers": at, "group.id": f"of-{topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        messages = []
        while len(messages) < count:
            batch = consumer.consume(count - len(messages), timeout=60)
            assert batch, f"{len(messages)} of {count}"
            messages += batch
        return messages
    finally:
        consumer.close()


# -- topics


def test_the_rate_is_of_what_clients_write_meanwhile(at: str, siltstone, topic: str) -> None:
    producer, ended = Producer({"bootstrap.servers": at}), Event()

    def write() -> None:
        while not ended.wait(0.01):
            producer.produce(topic, b"x" * 1_000)
            producer.poll(0)
        producer.flush(60)

    writing = Thread(target=write)
    writing.start()
    try:
        rated = siltstone("topics", "--rate", 1, "--json").json["topics"]
        shown = siltstone("topics", "list", "--rate", 1).out
    finally:
        ended.set()
        writing.join()
    row = next(each for each in rated if each["name"] == topic)
    assert row["records_per_s"] > 0 and row["bytes_per_s"] > 900 * row["records_per_s"]
    assert "records/s" in shown and "bytes/s" in shown


def test_a_topic_from_making_to_deleting(siltstone, siltstone_topic: str) -> None:
    name = siltstone_topic
    made = siltstone("topics", "create", name, "--partitions", 2, "--config", "retention.ms=86400000")
    assert made.out == f"Created {name}, 2 partitions.\n"
    assert_one_line(
        siltstone("topics", "create", name), 2, f"Topic '{name}' already exists (TOPIC_ALREADY_EXISTS)"
    )
    assert siltstone("topics", "create", name, "--if-missing").out == f"{name} already exists.\n"
    siltstone("produce", name, "--partition", 1, stdin=b"a\nb\n")

    rows = siltstone("topics", "--json").json["topics"]
    row = next(row for row in rows if row["name"] == name)
    assert (row["partitions"], row["records_max"], row["cleanup_policy"]) == (2, 2, "delete")
    assert re.search(rf"^{name} +2 +2 +\d+ B +delete *$", siltstone("topics").out, re.MULTILINE)

    described = siltstone("topics", "describe", name, "--json").json
    assert described["topic_id"] == row["topic_id"]
    of_the_topic = {name for name, config in described["configs"].items() if config["set_by"] == "topic"}
    assert of_the_topic == {"retention.ms"} and described["configs"]["retention.ms"]["value"] == "86400000"
    assert [part["end_offset"] for part in described["partitions"]] == [0, 2]
    assert [part["newest_timestamp_ms"] is None for part in described["partitions"]] == [True, False]

    assert_one_line(siltstone("topics", "delete", name), 2, f"Delete {name} with 2 records?", "--yes")
    assert siltstone("topics", "delete", name, "--yes").out == f"Deleted {name}.\n"
    assert name not in siltstone("topics").out


def test_configurations_are_changed_together_and_shown_before_and_after(siltstone, topic: str) -> None:
    changed = siltstone(
        "topics", "configure", topic, "retention.ms=1000", "cleanup.policy=compact", "--json"
    ).json
    assert changed["changes"] == [
        {"name": "retention.ms", "before": "604800000", "after": "1000"},
        {"name": "cleanup.policy", "before": "delete", "after": "compact"},
    ]
    assert_one_line(siltstone("topics", "configure", topic, "retention.ms=5", "no.such=1"), 2, "no.such")
    dry = siltstone("topics", "configure", topic, "retention.ms=7", "--dry-run")
    assert dry.words.endswith("retention.ms 1000 7") and "nothing was changed" in dry.err
    configs = siltstone("topics", "describe", topic, "--json").json["configs"]
    assert configs["retention.ms"]["value"] == "1000"
    back = siltstone(
        "topics", "configure", topic, "--remove", "retention.ms", "--partitions", 5, "--json"
    ).json
    assert back["changes"] == [
        {"name": "retention.ms", "before": "1000", "after": "604800000"},
        {"name": "partitions", "before": "3", "after": "5"},
    ]
    assert_one_line(siltstone("topics", "configure", topic, "--partitions", 2), 2, "INVALID_PARTITIONS")
    assert_one_line(siltstone("topics", "configure", topic), 2, "nothing to change")


def test_trimming_shows_what_goes_and_asks(siltstone, topic: str) -> None:
    for partition in (0, 2):
        siltstone("produce", topic, "--partition", partition, stdin=b"x\n" * 10 * (partition + 1))
    dry = siltstone("topics", "trim", topic, "--before", 15, "--dry-run", "--json").json
    assert dry["records"] == 25 and dry["dry_run"]
    assert [part["new_start_offset"] for part in dry["partitions"]] == [10, 0, 15]
    refused = siltstone("topics", "trim", topic, "--before", 15)
    assert refused.status == 2 and "Delete 25 records" in refused.err and "--yes" in refused.err
    done = siltstone("topics", "trim", topic, "--before", 15, "--partition", 2, "--yes")
    assert done.err == "Deleted 15 records.\n"
    assert everything(siltstone, topic, "--partition", 2)[0]["offset"] == 15
    assert "Nothing was deleted." in siltstone("topics", "trim", topic, "--before", 5, "--partition", 2).err
    assert (
        siltstone("topics", "trim", topic, "--before-time", "@0", "--dry-run", "--json").json["records"] == 0
    )
    assert (
        siltstone("topics", "trim", topic, "--before", "latest", "--dry-run", "--json").json["records"] == 25
    )
    assert_one_line(siltstone("topics", "trim", topic), 2, "--before OFFSET", "--before-time TIME")
    assert_one_line(siltstone("topics", "trim", topic, "--before", "2h"), 2, "use --before-time")


def test_internal_topics_are_shown_on_request(siltstone, siltstone_topic: str, at: str) -> None:
    siltstone("produce", siltstone_topic, "--create", stdin=b"x\n")
    consumed(at, siltstone_topic, 1)
    assert "__consumer_offsets" not in siltstone("topics").out
    assert "__consumer_offsets" in siltstone("topics", "--internal").out


# -- what goes wrong


def test_an_unknown_topic_is_answered_with_near_names(siltstone, topic: str) -> None:
    wrong = topic[:-1] + ("0" if topic[-1] != "0" else "1")
    for words in (
        ("tail", wrong),
        ("produce", wrong),
        ("topics", "describe", wrong),
        ("topics", "delete", wrong, "--yes"),
    ):
        assert_one_line(siltstone(*words, stdin=b"x\n"), 2, f"there is no topic {wrong}: did you mean", topic)
    for words in (("tail",), ("topics", "describe"), ("topics", "delete", "--yes")):
        said = siltstone(*words, "zzzzzz")
        assert_one_line(said, 2, "there is no topic zzzzzz: siltstone topics lists them")
        assert "create" not in said.err
    assert_one_line(
        siltstone("tail", topic, "--partition", 7),
        2,
        f"topic {topic} has no partition 7: it has partitions 0 to 2",
    )


def test_no_broker_is_one_line_that_says_how_to_start_one() -> None:
    for words in (("topics",), ("groups",), ("tail", "t"), ("produce", "t"), ("topics", "create", "t")):
        outcome = run(*words, "--bootstrap", "127.0.0.1:1", stdin=b"")
        assert_one_line(outcome, 1, "no broker at 127.0.0.1:1", "siltstone serve", "bootstrap address")


# -- produce


def test_keys_go_where_javas_partitioner_puts_them(siltstone, topic: str, at: str) -> None:
    """confluent-kafka's murmur2_random is Java's."""
    keys = [f"key-{number}".encode() for number in range(200)] + [b"", "größe".encode(), b"x" * 100]
    placed: dict[bytes, int] = {}
    producer = Producer({"bootstrap.servers": at, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(
            topic,
            key=key,
            value=b"theirs",
            on_delivery=lambda _, m: placed.__setitem__(m.key() or b"", m.partition()),
        )
    producer.flush()
    siltstone("produce", topic, "--key-separator", ":", stdin=b"".join(key + b":ours\n" for key in keys))
    ours = {
        record["key"].encode(): record["partition"]
        for record in everything(siltstone, topic)
        if record["value"] == "ours"
    }
    assert ours == placed and len(ours) == len(keys)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_is_what_others_read(siltstone, topic: str, at: str, codec: str) -> None:
    lines = b"".join(b"k%d\tvalue %d %s\n" % (number % 10, number, b"x" * 50) for number in range(2000))
    outcome = siltstone(
        "produce", topic, "--key-separator", r"\t", "--header", "a=1", "--header", "b=", "--compression", codec,
        "--json", stdin=lines,
    )  # fmt: skip
    told = outcome.json
    assert told["records"] == 2000 and told["input_bytes"] == len(lines)
    assert (told["sent_bytes"] < len(lines) / 3) == (codec != "none")
    messages = consumed(at, topic, 2000)
    assert sorted((m.key(), m.value()) for m in messages) == sorted(
        tuple(line.split(b"\t")) for line in lines.splitlines()
    )
    assert messages[0].headers() == [("a", b"1"), ("b", b"")]
    last = {number: part["last_offset"] for number, part in told["partitions"].items()}
    assert sum(offset + 1 for offset in last.values()) == 2000


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_others_produce_is_shown(siltstone, topic: str, at: str, codec: str) -> None:
    producer = Producer({"bootstrap.servers": at, "compression.type": codec, "linger.ms": 50})
    for number in range(1000):
        producer.produce(topic, key=b"k", value=b"%d" % number, headers=[("h", b"\xff")], partition=1)
    producer.flush()
    records = everything(siltstone, topic)
    assert [(r["offset"], r["value"]) for r in records] == [(number, str(number)) for number in range(1000)]
    assert records[0]["headers"] == [{"name": "h", "value_base64": "/w=="}]


def test_a_topic_is_copied_by_a_pipe(siltstone, topic: str, siltstone_topic: str) -> None:
    siltstone("produce", topic, "--key-separator", ":", "--header", "h=1", stdin=b"a:\xff\xfe\nb:\nc:text\n")
    siltstone("produce", topic, "--empty-as-null", "--key", "d", stdin=b"\n")
    copy = f"{topic}-copy"
    lines = siltstone("tail", topic, "--from", "earliest", "--until-end", "--format", "json").out
    told = siltstone("produce", copy, "--create", "--format", "json", "--partition", 0, stdin=lines.encode())
    assert told.words.startswith(f"4 records to {copy}, 1 partition:")

    def contents(name: str) -> list[tuple]:
        return sorted(
            (r["key"], r.get("value"), r.get("value_base64"), r["timestamp"], str(r.get("headers")))
            for r in everything(siltstone, name)
        )

    assert contents(copy) == contents(topic)


def test_records_that_the_broker_refuses_are_named_by_their_line(siltstone, siltstone_topic: str) -> None:
    siltstone(
        "topics",
        "create",
        siltstone_topic,
        "--config",
        "cleanup.policy=compact",
        "--config",
        "max.message.bytes=2000",
    )
    keyless = b'{"key": "a", "value": "1"}\n{"value": "2"}\n'
    assert_one_line(
        siltstone("produce", siltstone_topic, "--format", "json", stdin=keyless),
        2,
        "line 2: ",
        "INVALID_RECORD",
    )
    long = b"k:" + b"x" * 1500 + b"\nk:y\nk:" + b"x" * 3000 + b"\n"
    outcome = siltstone("produce", siltstone_topic, "--key-separator", ":", stdin=long)
    assert_one_line(outcome, 1, "line 3: ", "max.message.bytes", "2 records were written before that")


# -- tail


def values(outcome: Outcome) -> list[str]:
    assert outcome.status == 0, outcome
    return outcome.out.splitlines()


@contextmanager
def records_at_times(siltstone, topic: str) -> Iterator[None]:
    """Record n, of the time n seconds, lies in partition n % 3."""
    lines = (
        b'{"value": "%d", "timestamp": %d, "partition": %d}\n' % (n, NOON_MS + 1000 * n, n % 3)
        for n in range(30)
    )
    siltstone("produce", topic, "--format", "json", stdin=b"".join(lines))
    yield


def test_the_last_records_of_all_partitions_come_in_the_order_of_their_times(siltstone, topic: str) -> None:
    with records_at_times(siltstone, topic):
        assert values(siltstone("tail", topic, "--until-end")) == [str(n) for n in range(20, 30)]
        assert values(siltstone("tail", topic, "-n", 4, "--until-end")) == ["26", "27", "28", "29"]
        assert values(siltstone("tail", topic, "-n", 100, "--until-end")) == [str(n) for n in range(30)]
        assert values(siltstone("tail", topic, "-n", 0, "--until-end")) == []
        assert values(siltstone("tail", topic, "-n", 2, "--until-end", "--partition", 1)) == ["25", "28"]


def test_tail_begins_where_it_is_told(siltstone, topic: str) -> None:
    with records_at_times(siltstone, topic):

        def of(*words: object) -> list[str]:
            return sorted(values(siltstone("tail", topic, "--until-end", *words)), key=int)

        assert of("--from", "earliest") == [str(n) for n in range(30)]
        assert of("--from", "latest") == []
        assert of("--from", 8) == [str(n) for n in range(24, 30)]
        assert of("--from", 1000) == []
        assert of("--from", "2013-07-01T12:00:27") == ["27", "28", "29"]
        assert of("--from", "2999-01-01") == []
        assert of("--from", "earliest", "--limit", 5, "--partition", 0) == ["0", "3", "6", "9", "12"]
        assert_one_line(siltstone("tail", topic, "--from", "soon"), 2, "--from 'soon'")
        assert siltstone("tail", topic, "--from", "0", "-n", "1").status == 2


# -- groups


@contextmanager
def reading(at: str, group: str, topic: str, **config: object) -> Iterator[None]:
    """A member that has taken and committed everything."""
    settings = {"bootstrap.servers": at, "group.id": group, "auto.offset.reset": "earliest", **config}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    try:
        while not (message := consumer.poll(60)):
            pass
        consumer.commit(message, asynchronous=False)
        yield
    finally:
        consumer.close()


def test_a_group_from_reading_to_forgetting(siltstone, topic: str, at: str) -> None:
    siltstone("produce", topic, "--partition", 1, stdin=b"x\n" * 10)
    group = f"group-of-{topic}"
    with reading(at, group, topic, **{"enable.auto.commit": False, "client.id": "one"}):
        row = next(row for row in siltstone("groups", "--json").json["groups"] if row["group"] == group)
        size_bytes = row.pop("lag_bytes")
        assert size_bytes > 9
        assert row == {
            "group": group,
            "state": "Stable",
            "members": 1,
            "topics": [topic],
            "lag": 9,
            "partitions_without_commit": 0,
            "lag_seconds_min": None,
        }
        described = siltstone("groups", "describe", group, "--json").json
        (member,) = described["members"]
        assert (member["client"], len(member["partitions"])) == ("one", 3)
        row = rf"^{topic} +1 +1 +10 +9 +one-[0-9a-f]{{8}}… +127\.0\.0\.1 *$"
        seen = siltstone("groups", "describe", group)
        assert re.search(row, seen.out, re.MULTILINE)
        assert re.search(
            rf"state stable members 1 assignor \w+ coordinator broker \d+ at {at} lag 9 records, about",
            seen.words,
        )
        busy = siltstone("groups", "reset", group, "--topic", topic, "--to", "earliest")
        assert_one_line(busy, 2, f"group {group} is stable and has 1 member: stop them first")
        kept = siltstone("groups", "delete", group, "--yes")
        assert kept.status == 1 and "not deleted" in kept.err and "stop them first" in kept.err
    dry = siltstone("groups", "reset", group, "--topic", topic, "--to", "latest", "--dry-run", "--json").json
    assert dry["partitions"][1] == {"topic": topic, "partition": 1, "before": 1, "after": 10}
    done = siltstone("groups", "reset", group, "--topic", topic, "--to", 4, "--partition", 1)
    assert done.words.endswith(f"{topic} 1 1 4 +3")
    assert siltstone("groups", "describe", group, "--json").json["partitions"][1]["committed_offset"] == 4
    assert_one_line(siltstone("groups", "describe", group[:-1]), 2, f"did you mean {group}")
    assert_one_line(siltstone("groups", "delete", group), 2, "--yes")
    assert siltstone("groups", "delete", group, "--yes").out == f"Deleted {group}.\n"
    assert group not in siltstone("groups").out


def test_a_reset_to_a_time_goes_to_its_first_record(siltstone, topic: str, at: str) -> None:
    with records_at_times(siltstone, topic):
        group = f"group-of-{topic}"
        with reading(at, group, topic):
            pass
        moved = siltstone(
            "groups", "reset", group, "--topic", topic, "--to", "2013-07-01T12:00:15", "--json"
        ).json
        assert [part["after"] for part in moved["partitions"]] == [5, 5, 5]
