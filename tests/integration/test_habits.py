"""What people type by habit, from kcat, rpk and Kafka's tools, and the plain data that they have: it works."""

import click
import msgspec
import pytest

from siltstone.cli.main import cli
from siltstone.server.embedded import Broker
from support.engine.small_store import small_store
from support.processes.cli import assert_one_line, run
from support.processes.started import started


@pytest.fixture
def siltstone(siltstone_broker: Broker):
    def command(*words: object, stdin: bytes | None = None, **environment: str | None):
        at = siltstone_broker.bootstrap_servers
        return run(*words, stdin=stdin, SILTSTONE_BOOTSTRAP=at, **environment)

    return command


def every_command(group: click.Group, *before: str) -> list[tuple[str, ...]]:
    context = click.Context(group)
    found: list[tuple[str, ...]] = [before]
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        below = (
            every_command(command, *before, name) if isinstance(command, click.Group) else [(*before, name)]
        )
        found += below
    return found


@pytest.mark.parametrize("path", every_command(cli), ids=" ".join)
def test_h_is_help_everywhere(path: tuple[str, ...]) -> None:
    short, long = run(*path, "-h"), run(*path, "--help")
    assert short.status == 0 and short.out == long.out and "Usage: siltstone" in short.out


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("version", "siltstone --version"), ("topic", "siltstone topics"), ("start", "siltstone serve")],
)
def test_the_words_of_other_tools_are_answered_with_ours(typed: str, meant: str) -> None:
    assert_one_line(run(typed), 2, f"No such command '{typed}'. Write {meant}.")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("--list", "No such option '--list'. Write siltstone topics."),
        ("alter", "No such command 'alter'. Write siltstone topics configure NAME KEY=VALUE"),
        ("partitions", "No such command 'partitions'. Write siltstone topics configure NAME --partitions N."),
    ],
)
def test_the_words_of_other_tools_below_topics(typed: str, meant: str) -> None:
    assert_one_line(run("topics", typed), 2, meant)


def test_topics_as_in_rpk_and_kafka_topics(siltstone, siltstone_broker: Broker, siltstone_topic: str) -> None:
    name = siltstone_topic
    made = siltstone("topics", "create", name, "-p", 3, "-r", 1, "-c", "retention.ms=7d")
    assert made.out == f"Created {name}, 3 partitions.\n"
    at = siltstone_broker.bootstrap_servers
    for words in (
        ("topics", "list"),
        ("topics",),
        ("topics", "list", "--bootstrap-server", at),
        ("topics", "-b", at),
    ):
        assert f"{name}\t3\t0\t0 B\tdelete\n" in siltstone(*words, COLUMNS=None).out
    assert siltstone("topics", "list", "--json").json == siltstone("topics", "--json").json
    assert siltstone("consume", name, "-g", f"of-{name}", "-e").status == 0
    assert f"of-{name}\tempty\t0\t0\t0 B\t0 ms\t0\t\n" in siltstone("groups", "list", COLUMNS=None).out
    assert siltstone("groups", "list", "--json").json == siltstone("groups", "--json").json
    assert "__consumer_offsets" in siltstone("topics", "list", "--internal").out
    assert "__consumer_offsets" in siltstone("topics", "--internal", "list").out


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("retention.m=1", "did you mean retention.ms?"),
        ("retention.ms=banana", "write retention.ms=7d or 604800000"),
        ("segment.bytes=banana", "write segment.bytes=64MiB or 67108864"),
    ],
)
def test_a_wrong_configuration_is_told_what_was_meant(
    siltstone, siltstone_topic: str, config: str, said: str
) -> None:
    assert_one_line(siltstone("topics", "create", siltstone_topic, "-c", config), 2, said)


def test_produce_and_tail_as_in_kcat(siltstone, siltstone_topic: str) -> None:
    name = siltstone_topic
    words = ("-K", ":", "-z", "lz4", "-H", "a=1", "-p", 0, "--create")
    assert siltstone("produce", name, *words, stdin=b"k1:v1\nk2:v2\nk3:v3\n").status == 0
    shown = siltstone("tail", name, "-o", "beginning", "-e", "-p", 0, "-c", 2, "-f", "%t[%p] %o %k=%s %h\\n")
    assert shown.out == f"{name}[0] 0 k1=v1 a=1\n{name}[0] 1 k2=v2 a=1\n"
    assert siltstone("tail", name, "-o", "end", "-e").out == ""
    assert_one_line(
        siltstone("tail", name, "-f", "yaml"), 2, "'yaml' is not one of text, json, raw", "'%k %s\\n'"
    )
    assert_one_line(siltstone("tail", name, "-f", "%q"), 2, "%q is no token", "%k")


# -- plain data


def produced(siltstone, topic: str, data: bytes, *words: object) -> list[tuple[str | None, object]]:
    assert siltstone("produce", topic, "--create", *words, stdin=data).status == 0
    lines = siltstone("tail", topic, "-o", "start", "-e", "--json-values").out.splitlines()
    return [(record["key"], record["value"]) for record in map(msgspec.json.decode, lines)]


def test_json_lines_as_data_sets_have_them(siltstone, siltstone_topic: str) -> None:
    data = b'{"country": "Chad", "pop": 8}\n{"country": "Mali", "pop": {"2007": 12}}\n'
    assert produced(siltstone, siltstone_topic, data, "--json-lines", "--key-field", "country") == [
        ("Chad", {"country": "Chad", "pop": 8}),
        ("Mali", {"country": "Mali", "pop": {"2007": 12}}),
    ]


def test_csv_with_its_header(siltstone, siltstone_topic: str) -> None:
    data = b'country,note\r\nChad,"two\r\nlines"\r\nMali,\r\n'
    assert produced(siltstone, siltstone_topic, data, "--csv", "--key-field", "country") == [
        ("Chad", {"country": "Chad", "note": "two\nlines"}),
        ("Mali", {"country": "Mali", "note": ""}),
    ]


def test_a_line_without_the_key_is_told_and_those_before_it_are_written(
    siltstone, siltstone_topic: str
) -> None:
    data = b'{"id": 1}\n{"name": "x"}\n{"id": 3}\n'
    words = ("produce", siltstone_topic, "--create", "--json-lines", "--key-field", "id")
    outcome = siltstone(*words, stdin=data)
    assert_one_line(outcome, 1, "line 2 has no field 'id': it has name", "1 record was written before that")
    assert siltstone(*words, "--missing-key-as-null", stdin=data).status == 0
    shown = siltstone("tail", siltstone_topic, "-o", "start", "-e", "-f", "%k,%K\\n").out
    assert shown == "1,1\n1,1\n,-1\n3,1\n"
    outcome = siltstone("produce", siltstone_topic, "--csv", stdin=b'a\n1\n"2')
    assert_one_line(
        outcome, 1, "the row that begins at line 3 has a quote that no other closes", "1 record was"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("--key-field", "id"), ("--json-lines", "--csv"), ("--json-lines", "--format", "json"),
        ("--json-lines", "--key-field", "a", "--key", "b"), ("--json-lines", "--key-separator", ":"),
        ("--csv", "--missing-key-as-null"), ("--csv", "--empty-as-null"),
    ],
)  # fmt: skip
def test_options_that_contradict_each_other_are_refused(siltstone, words: tuple[str, ...]) -> None:
    assert_one_line(
        siltstone("produce", "nothing-is-sent", *words, stdin=b""), 2, "See siltstone produce --help"
    )


# -- pipes


def test_a_table_in_a_real_pipe_has_whole_values_one_line_a_row(
    siltstone, siltstone_broker: Broker, siltstone_topic: str
) -> None:
    value = "[bold]" + "x" * 500
    lines = f"k\tone:{value}\nl:[/]\n".encode()
    assert siltstone("produce", siltstone_topic, "-K", ":", "--create", stdin=lines).status == 0
    with started("table", siltstone_topic, "-b", siltstone_broker.bootstrap_servers) as process:
        out, said = process.communicate(timeout=60)
    rows = [line.split("\t") for line in out.decode().splitlines()]
    assert rows[0] == ["key", "value", "partition", "offset", "time (UTC)"]
    assert [row[:4] for row in rows[1:]] == [["k\\tone", value, "0", "0"], ["l", "[/]", "0", "1"]]
    assert len(said.decode().splitlines()) == 1


@pytest.mark.parametrize("columns", [80, 100, 140])
def test_streams_fit_their_terminal(tmp_path, columns: int) -> None:
    with Broker(tmp_path, settings={"broker.num_partitions": "2"}) as broker:
        name = "a-topic-with-a-name-of-some-length"
        for _ in range(2):
            run("produce", name, "--create", "-b", broker.bootstrap_servers, stdin=b"x" * 50_000 + b"\n")
    outcome = run("streams", "--store", tmp_path, COLUMNS=str(columns))
    assert all(len(line) <= columns for line in outcome.out.splitlines())
    row = next(line for line in outcome.out.splitlines() if f"{name}-1" in line)
    assert "data" in outcome.words and ("owner" in outcome.out) is (columns >= 100), row


def test_streams_of_other_stores_show_their_tags(tmp_path) -> None:
    small_store(tmp_path)
    first, second, *_ = run("streams", "--store", tmp_path, COLUMNS=None).out.splitlines()
    assert first == "id\tstate\tepoch\towner\tstart\tend\tobjects\tbytes\ttags"
    assert second.startswith("0\tclosed\t0\t0\t0\t") and second.endswith("\ttopic=t0")
