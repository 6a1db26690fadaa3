from support.broker.in_process import InProcessBroker
from support.groups.served_member import joined_member
from support.processes.cli import assert_one_line


def test_groups_are_deleted_after_a_yes_only(broker: InProcessBroker, topic: str) -> None:
    for name in ("g", "h"):
        broker.wait(joined_member(broker, topic, name, [0]).leave())
    refused = broker.siltstone("groups", "delete", "h", "g", "h")
    assert_one_line(refused, 2, "Delete the committed offsets of h, g?", "--yes")
    assert_one_line(
        broker.siltstone("groups", "delete", "g", "i", "--yes"), 2, "there is no consumer group i"
    )
    assert len(broker.siltstone("groups", "--json").json["groups"]) == 2
    deleted = broker.siltstone("groups", "delete", "h", "g", "h", "--yes")
    assert (deleted.status, deleted.out, deleted.err) == (0, "Deleted h, g.\n", "")
    assert broker.siltstone("groups", "--json").json == {"groups": []}


def test_a_group_with_members_stays(broker: InProcessBroker, topic: str) -> None:
    joined_member(broker, topic, "g", [0])
    kept = broker.siltstone("groups", "delete", "g", "--yes", "--json")
    assert kept.status == 1 and kept.json["deleted"] == [] and list(kept.json["refused"]) == ["g"]
    assert kept.err.startswith("not deleted: group g: ")
