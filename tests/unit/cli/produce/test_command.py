import re
from collections.abc import Callable, Iterator

import pytest

from siltstone.cli.produce import command as module
from siltstone.cli.produce.reading import Lines
from siltstone.kafka_client.failures import KafkaRefusal
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.errors import SiltstoneError
from support.broker.in_process import InProcessBroker
from support.processes.cli import assert_one_line


@pytest.fixture
def topic(broker: InProcessBroker) -> str:
    broker.siltstone("topics", "create", "t", "--partitions", 3)
    return "t"


def records(broker: InProcessBroker, name: str = "t") -> list[tuple]:
    """(partition, key, value) of all."""
    listed = broker.siltstone("tail", name, "--from", "earliest", "--until-end", "--offsets", "--key")
    rows = (line.split("\t") for line in listed.out.splitlines())
    return sorted((int(at.split(":")[0]), key, value) for at, key, value in rows)


def test_lines_become_records_and_their_number_is_told(broker: InProcessBroker, topic: str) -> None:
    done = broker.siltstone("produce", topic, "--partition", 1, stdin=b"a\nb\nlast")
    assert (done.status, done.err) == (0, "")
    assert re.fullmatch(r"3 records to t, 1 partition: 8 B in \d+(\.\d+)? m?s\n", done.out), done.out
    assert records(broker) == [(1, "<null>", "a"), (1, "<null>", "b"), (1, "<null>", "last")]


def test_what_was_sent_as_json(broker: InProcessBroker, topic: str) -> None:
    told = broker.siltstone("produce", topic, "--key-separator", ":", "--json", stdin=b"a:1\nb:2\na:3\n").json
    assert list(told) == [
        "topic", "records", "input_bytes", "batches", "sent_bytes", "seconds", "partitions",
    ]  # fmt: skip
    assert (told["topic"], told["records"], told["input_bytes"]) == ("t", 3, 12)
    of_partitions = told["partitions"].values()
    assert sum(each["records"] for each in of_partitions) == 3
    assert all(each["last_offset"] == each["first_offset"] + each["records"] - 1 for each in of_partitions)
    assert list(told["partitions"]) == sorted(told["partitions"])
    assert told["batches"] == len(told["partitions"]) and told["sent_bytes"] > 60
    assert {(key, value) for _, key, value in records(broker)} == {("a", "1"), ("b", "2"), ("a", "3")}


def test_batches_are_compressed_as_asked(broker: InProcessBroker, topic: str) -> None:
    lines = b"the same line again\n" * 100
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        told = broker.siltstone("produce", topic, "--compression", codec, "--json", stdin=lines).json
        assert (told["sent_bytes"] < 1000) == (codec != "none")
    assert [value for *_, value in records(broker)] == ["the same line again"] * 500


def test_a_key_headers_and_tombstones(broker: InProcessBroker, topic: str) -> None:
    words = ("--key", "k", "--header", "h=1", "--header", "g=", "--empty-as-null", "--partition", 0)
    broker.siltstone("produce", topic, *words, stdin=b"v\n\n")
    shown = broker.siltstone("tail", topic, "--until-end", "--key", "--headers")
    assert shown.out == "k\th=1 g=\tv\nk\th=1 g=\t<null>\n"


def test_one_key_for_all_and_a_key_in_each_line_exclude_each_other(broker: InProcessBroker) -> None:
    refused = broker.siltstone("produce", "t", "--key", "k", "--key-separator", ":", stdin=b"")
    assert_one_line(refused, 2, "--key, --key-separator and --key-field exclude each other")


def test_a_topic_that_is_missing_is_created_on_request(broker: InProcessBroker) -> None:
    refused = broker.siltstone("produce", "new", stdin=b"x\n")
    assert_one_line(refused, 2, "there is no topic new", "; --create creates it")
    assert broker.siltstone("produce", "new", "--create", stdin=b"x\n").out.startswith("1 record to new, ")
    assert broker.siltstone("produce", "new", "--create", stdin=b"y\n").status == 0
    assert [value for *_, value in records(broker, "new")] == ["x", "y"]


def test_a_partition_that_is_missing_is_refused(broker: InProcessBroker, topic: str) -> None:
    of_all = broker.siltstone("produce", topic, "--partition", 3, stdin=b"x\n")
    assert_one_line(of_all, 2, "topic t has no partition 3: it has partitions 0 to 2")
    lines = b'{"value": "1", "partition": 2}\n{"value": "2", "partition": 3}\n'
    of_one = broker.siltstone("produce", topic, "--format", "json", stdin=lines)
    assert_one_line(of_one, 1, "line 2: topic t has no partition 3: it has partitions 0 to 2",
                    "1 record was written before that")  # fmt: skip
    assert records(broker) == [(2, "<null>", "1")]


def test_a_refused_line_is_named_after_the_lines_before_it_were_written(
    broker: InProcessBroker, topic: str
) -> None:
    outcome = broker.siltstone("produce", topic, "--key-separator", ":", stdin=b"a:1\nb:2\nnone\nc:3\n")
    assert_one_line(outcome, 1, "line 3 has no ':'", "; 2 records were written before that")
    assert len(records(broker)) == 2
    first = broker.siltstone("produce", topic, "--key-separator", ":", stdin=b"none\n")
    assert_one_line(first, 2, "line 1 has no ':'")
    assert "written" not in first.err


def test_a_record_is_as_large_as_the_topic_accepts(broker: InProcessBroker) -> None:
    broker.siltstone("topics", "create", "t", "--config", "max.message.bytes=2000")
    told = broker.siltstone("produce", "t", "--json", stdin=(b"x" * 900 + b"\n") * 4).json
    assert told["batches"] == 2
    long = broker.siltstone("produce", "t", stdin=b"x" * 3000 + b"\n")
    assert_one_line(long, 2, "line 1: ", "max.message.bytes")


def test_a_client_that_may_not_read_the_configuration_produces_all_the_same(
    broker: InProcessBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [KeyError("t"), KafkaRefusal(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "no")]

    def refuse(*_: object) -> None:
        raise failures.pop()

    monkeypatch.setattr(module, "topic_configs", refuse)
    for _ in range(2):
        assert broker.siltstone("produce", topic, "--json", stdin=b"x\n").json["records"] == 1
    assert failures == []


def failing_after_two(failure: BaseException) -> Callable[[object, object], Iterator[Lines]]:
    """Input that pauses after its first line, so that it is sent; its second line waits for more."""

    def read_lines(_: object, wait: object) -> Iterator[Lines]:
        yield Lines([b"one"], 4, True)
        yield Lines([b"two"], 4, False)
        raise failure

    return read_lines


def test_ctrl_c_tells_how_many_were_written(
    broker: InProcessBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "read_lines", failing_after_two(KeyboardInterrupt()))
    stopped = broker.siltstone("produce", topic, stdin=b"")
    assert (stopped.status, stopped.out) == (130, "")
    assert stopped.err == "siltstone: interrupted, 1 record was written before that\n"
    assert [value for *_, value in records(broker)] == ["one"]


def test_an_error_after_some_records_tells_how_many_were_written(
    broker: InProcessBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "read_lines", failing_after_two(SiltstoneError("the disk is full")))
    stopped = broker.siltstone("produce", topic, stdin=b"")
    assert_one_line(stopped, 1, "the disk is full; 1 record was written before that")


@pytest.mark.parametrize(
    ("records", "unacknowledged", "words"),
    [
        (1, 0, "1 record was written before that"),
        (2, 0, "2 records were written before that"),
        (0, 1, "0 records were written before that, and perhaps 1 more"),
        (1200, 3400, "1,200 records were written before that, and perhaps 3,400 more"),
    ],
)
def test_what_may_have_been_written_is_told_too(records: int, unacknowledged: int, words: str) -> None:
    class Producer:
        pass

    producer = Producer()
    producer.records, producer.records_unacknowledged = records, unacknowledged
    production = object.__new__(module.Production)
    production._producer = producer
    assert production._written() == words


def test_trouble_is_told_while_records_are_sent(capsys: pytest.CaptureFixture[str]) -> None:
    said = []

    class Progress:
        def say(self, text: str) -> None:
            said.append(text)

    production = object.__new__(module.Production)
    production._progress, production._answers = None, module.AnswerWatch(0)
    production._say_trouble("before it began")
    production._progress = Progress()
    production._say_trouble("the broker has gone")
    assert said == ["the broker has gone; retrying what is not acknowledged"]


def test_two_formats_exclude_each_other_and_the_same_one_twice_does_not(
    broker: InProcessBroker, topic: str
) -> None:
    for formats in (("--json-lines", "--csv"), ("--format", "csv", "--json-lines")):
        refused = broker.siltstone("produce", "t", *formats, stdin=b"")
        assert_one_line(refused, 2, "--format, --json-lines and --csv exclude each other: give one format")
    twice = broker.siltstone("produce", topic, "--format", "csv", "--csv", stdin=b"a\n1\n")
    assert twice.status == 0
