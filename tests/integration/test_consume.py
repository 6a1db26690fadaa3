"""``siltstone consume``: what was printed is what is committed, however it ends; and beside others' consumers."""

import signal
import subprocess
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer

from siltstone.server.embedded import Broker
from support.broker.cluster_clients import until
from support.processes.cli import Outcome, assert_one_line, run
from support.processes.started import started

RECORDS = 20_000
DEADLINE_SECONDS = 60


@pytest.fixture
def at(siltstone_broker: Broker) -> str:
    return siltstone_broker.bootstrap_servers


@pytest.fixture
def topic(siltstone_topic: str, at: str) -> str:
    assert run("topics", "create", siltstone_topic, "-p", 2, "-b", at).status == 0
    return siltstone_topic


def produce(at: str, topic: str, records: int) -> None:
    lines = b"".join(b'{"number": %d, "text": "%s"}\n' % (number, b"x" * 60) for number in range(records))
    assert run("produce", topic, "--json-lines", "--key-field", "number", "-b", at, stdin=lines).status == 0


def consume(at: str, topic: str, *words: object) -> Outcome:
    return run("consume", topic, "--group", f"of-{topic}", "-b", at, *words)


def committed(at: str, topic: str) -> int:
    """The sum over both partitions; each began at offset 0."""
    partitions = run("groups", "describe", f"of-{topic}", "--json", "-b", at).json["partitions"]
    return sum(row["committed_offset"] or 0 for row in partitions)


def test_a_group_goes_on_where_it_was(at: str, topic: str) -> None:
    produce(at, topic, 10)
    first = consume(at, topic, "--from-beginning", "-n", 3, "-f", "%p:%o %k\n")
    assert first.status == 0 and len(first.out.splitlines()) == 3 and committed(at, topic) == 3
    second = consume(at, topic, "--from-beginning", "--until-end", "-f", "%p:%o %k\n")
    assert second.status == 0 and committed(at, topic) == 10
    lines = first.out.splitlines() + second.out.splitlines()
    assert sorted(int(line.split()[1]) for line in lines) == list(range(10))
    assert consume(at, topic, "--from-beginning", "--until-end").out == ""


def owners(at: str, topic: str) -> set[str]:
    partitions = run("groups", "describe", f"of-{topic}", "--json", "-b", at).json["partitions"]
    return {row["member"] for row in partitions} - {None}


def test_members_of_both_protocols_share_a_group(at: str, topic: str) -> None:
    """The one of the new protocol joins while a classic one reads, and each record is printed once."""
    produce(at, topic, 10)
    words = ("consume", topic, "-g", f"of-{topic}", "--from-beginning", "-f", "%k %p:%o\n", "-b", at)
    with started(*words) as one:
        lines = [one.stdout.readline() for _ in range(10)]
        with started(*words, "--protocol", "consumer") as other:
            until(lambda: len(owners(at, topic)) == 2, "two members with a partition each", DEADLINE_SECONDS)
            produce(at, topic, 2_000)
            until(lambda: committed(at, topic) == 2_010, "all commits", DEADLINE_SECONDS)
            for process in (one, other):
                process.send_signal(signal.SIGINT)
            rest = [process.stdout.read().splitlines() for process in (one, other)]
    assert all(rest), "both have read"
    where = [line.split()[1] for line in [*lines, *rest[0], *rest[1]]]
    assert len(where) == len(set(where)) == 2_010 and committed(at, topic) == 2_010


def test_a_share_group_accepts_what_was_printed_and_releases_the_rest(at: str, topic: str) -> None:
    words = ("consume", topic, "-g", f"shares-{topic}", "--protocol", "share", "-f", "%k\n", "-b", at)
    with started(*words) as first:  # it begins at the end: the records have to come later
        until(
            lambda: run("groups", "describe", f"shares-{topic}", "--json", "-b", at).status == 0, "the group"
        )
        time.sleep(1)  # until it has fetched from both partitions
        produce(at, topic, 10)
        lines = [first.stdout.readline() for _ in range(10)]
        first.send_signal(signal.SIGINT)
        more = first.stdout.read()
        assert first.wait(DEADLINE_SECONDS) == 130 and more == b""
    produce(at, topic, 30)
    some = run(*words, "-n", 7)
    rest = run(*words, "-n", 23)
    assert (some.status, rest.status) == (0, 0), some
    assert sorted(int(line) for line in lines) == list(range(10))
    numbers = [int(line) for line in some.out.splitlines() + rest.out.splitlines()]
    assert sorted(numbers) == list(range(30)), "each once: what was not shown was released"
    lag = [
        row["lag"]
        for row in run("groups", "--json", "-b", at).json["groups"]
        if row["group"] == f"shares-{topic}"
    ]
    assert lag == [0]


def test_a_share_group_has_no_options_of_consumers(at: str, topic: str) -> None:
    words = ("consume", topic, "-g", "g", "--protocol", "share", "-b", at)
    assert "share.auto.offset.reset" in run(*words, "--from-beginning").err
    assert "use -n N" in run(*words, "--until-end").err


def test_a_new_group_begins_at_the_end_and_commits_nothing_that_it_did_not_print(at: str, topic: str) -> None:
    produce(at, topic, 10)
    assert consume(at, topic, "--until-end").out == ""
    assert committed(at, topic) == 0


def test_filters_count_what_matches_and_commit_what_was_read(at: str, topic: str) -> None:
    """Both partitions are read in the order of their records, so the group ends behind the last that matched."""
    produce(at, topic, 100)
    words = ("--from-beginning", "-f", "%k %p:%o\n", "--where", "value.number >= 10 and number % 10 = 3")
    wrong = consume(at, topic, "--from-beginning", "--where", "number = ")
    assert_one_line(wrong, 2, "--where number = : syntax error")
    first = consume(at, topic, *words, "-n", 2)
    assert first.status == 0 and len(first.out.splitlines()) == 2, first
    assert 2 <= committed(at, topic) < 100
    rest = consume(at, topic, *words, "--until-end")
    lines = first.out.splitlines() + rest.out.splitlines()
    assert sorted(int(line.split()[0]) for line in lines) == list(range(13, 100, 10))
    assert committed(at, topic) == 100, "what did not match is not read again"
    assert consume(at, topic, "--until-end", "--grep", "x").out == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
@pytest.mark.parametrize("lines_before", [0, 1, 7_000])
def test_after_a_signal_exactly_what_was_printed_is_committed(
    at: str, topic: str, number: int, lines_before: int
) -> None:
    """The reader is slower than the command, so the signal meets it while it writes into a full pipe."""
    produce(at, topic, RECORDS)
    with started("consume", topic, "-g", f"of-{topic}", "--from-beginning", "-b", at) as process:
        printed = [process.stdout.readline() for _ in range(lines_before)]
        process.send_signal(number)
        printed += process.stdout.readlines()
        said = process.stderr.read()
        process.wait(DEADLINE_SECONDS)
    if lines_before:  # else the signal may have come before Python had loaded the command
        assert (process.returncode, said) == (130, b"")
        assert lines_before <= len(printed) < RECORDS
        assert committed(at, topic) == len(printed)


def test_a_reader_that_has_enough_ends_it(at: str, topic: str) -> None:
    produce(at, topic, 5)
    with started("consume", topic, "-g", f"of-{topic}", "--from-beginning", "-b", at) as process:
        assert all(process.stdout.readline() for _ in range(5))
        process.stdout.close()
        assert process.wait(DEADLINE_SECONDS) == 0
    assert committed(at, topic) == 5
    assert consume(at, topic, "--until-end").out == ""


@pytest.fixture
def other_consumer(at: str, topic: str) -> Iterator[Consumer]:
    consumer = Consumer({
        "bootstrap.servers": at, "group.id": f"of-{topic}", "auto.offset.reset": "earliest", "log_level": 0,
    })  # fmt: skip
    consumer.subscribe([topic])
    yield consumer
    consumer.close()


def test_it_shares_a_group_with_another_client_and_takes_over_when_that_leaves(
    at: str, topic: str, other_consumer: Consumer
) -> None:
    produce(at, topic, 100)
    with started(
        "consume", topic, "-g", f"of-{topic}", "--from-beginning", "-f", "%k\n", "-b", at
    ) as process:
        theirs = [message.key() for message in _until_assigned_one(other_consumer)]
        other_consumer.close()
        ours: list[bytes] = []
        while len(set(ours) | set(theirs)) < 100:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            ours.append(line.strip())
        process.send_signal(signal.SIGINT)
        ours += [line.strip() for line in process.stdout.readlines()]
        process.wait(DEADLINE_SECONDS)
    assert len(ours) == len(set(ours)), "nothing is printed twice"
    assert process.returncode == 130 and committed(at, topic) == 100


def _until_assigned_one(consumer: Consumer) -> list:
    """Polls until the group has given away one of the two partitions, and returns what was read by then."""
    found = []
    give_up = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < give_up:
        found += [message for message in consumer.consume(100, 0.1) if message.error() is None]
        if len(consumer.assignment()) == 1:
            return found
    raise AssertionError("the other member never joined")


def test_a_group_must_be_named_and_a_topic_be_there(at: str, siltstone_topic: str) -> None:
    assert_one_line(run("consume", siltstone_topic, "-b", at), 2, "Missing option", "--group")
    assert_one_line(
        run("consume", siltstone_topic, "-g", "g", "-b", at), 2, f"there is no topic {siltstone_topic}"
    )


def test_json_values_are_for_jq(at: str, topic: str) -> None:
    produce(at, topic, 1)
    run("produce", topic, "-b", at, stdin=b"plain text\n")
    outcome = run("tail", topic, "--from", "beginning", "--until-end", "--json-values", "-b", at)
    found = subprocess.run(
        ["python3", "-c", "import json,sys\nfor line in sys.stdin: print(json.loads(line)['value'])"],
        input=outcome.out, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert sorted(found.stdout.splitlines()) == ["plain text", "{'number': 0, 'text': '" + "x" * 60 + "'}"]
