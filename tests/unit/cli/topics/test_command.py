import pytest

from siltstone.cli.topics import command as module
from siltstone.cli.topics.listing import TopicRow
from support.broker.in_process import InProcessBroker


def test_without_a_topic_the_list_says_how_to_create_one(broker: InProcessBroker) -> None:
    listed = broker.siltstone("topics")
    assert listed.out == "There are no topics yet; siltstone topics create NAME creates one.\n"
    assert broker.siltstone("topics", "--json").json == {"topics": []}


def test_the_list_and_nothing_but_the_list(broker: InProcessBroker) -> None:
    broker.siltstone("topics", "create", "b", "--partitions", 2)
    broker.siltstone("topics", "create", "a", "--config", "cleanup.policy=compact")
    broker.siltstone("produce", "b", stdin=b"x\ny\n")
    listed = broker.siltstone("topics")
    (a, b) = [line.split() for line in listed.out.splitlines()[2:]]
    assert a == ["a", "1", "0", "0", "B", "compact"]
    assert (b[:3], b[4:]) == (["b", "2", "2"], ["B", "delete"]) and int(b[3]) > 0
    assert listed.err == ""
    rows = broker.siltstone("topics", "--json").json["topics"]
    assert [(row["name"], row["is_internal"], row["records_max"]) for row in rows] == [
        ("a", False, 0),
        ("b", False, 2),
    ]


def test_internal_topics_are_listed_on_request(
    broker: InProcessBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def rows(_: object, *, internal: bool) -> list[TopicRow]:
        asked.append(internal)
        return [TopicRow("t", "id", internal, 3, 0, "delete", [0, 2])]

    monkeypatch.setattr(module, "topic_rows", rows)
    assert broker.siltstone("topics", "--internal").err == "t: no broker leads partition 0, 2\n"
    assert broker.siltstone("topics", "--json").err == ""
    assert asked == [True, False]


def test_a_subcommand_lists_nothing_else(broker: InProcessBroker) -> None:
    assert broker.siltstone("topics", "create", "t").out == "Created t, 1 partition.\n"
    assert list(module.topics.commands) == [
        "list",
        "create",
        "describe",
        "configure",
        "move",
        "trim",
        "delete",
    ]
