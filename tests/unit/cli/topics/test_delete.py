from support.broker.in_process import InProcessBroker
from support.processes.cli import assert_one_line


def test_the_question_says_how_many_records_are_lost(broker: InProcessBroker) -> None:
    for name in ("a", "b"):
        broker.siltstone("topics", "create", name, "--partitions", 2)
        broker.siltstone("produce", name, "--partition", 1, stdin=b"x\ny\nz\n")
    broker.siltstone("topics", "trim", "b", "--before", 1, "--yes")
    refused = broker.siltstone("topics", "delete", "b", "a", "b")
    assert_one_line(refused, 2, "Delete b, a with 5 records?", "--yes")
    assert len(broker.siltstone("topics", "--json").json["topics"]) == 2
    deleted = broker.siltstone("topics", "delete", "b", "a", "b", "--yes")
    assert (deleted.status, deleted.out, deleted.err) == (0, "Deleted b, a.\n", "")
    assert broker.siltstone("topics", "--json").json == {"topics": []}


def test_of_several_topics_none_is_deleted_when_one_does_not_exist(broker: InProcessBroker) -> None:
    broker.siltstone("topics", "create", "flights")
    refused = broker.siltstone("topics", "delete", "flights", "flight", "--yes", "--json")
    assert_one_line(refused, 2, "there is no topic flight: did you mean flights?")
    assert [row["name"] for row in broker.siltstone("topics", "--json").json["topics"]] == ["flights"]
    assert broker.siltstone("topics", "delete", "flights", "--yes", "--json").json == {
        "deleted": ["flights"],
        "refused": {},
    }
