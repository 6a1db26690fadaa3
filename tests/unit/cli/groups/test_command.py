from siltstone.cli.groups import command as module
from support.broker.in_process import InProcessBroker
from support.groups.served_member import joined_member


def test_without_a_group_the_list_says_so(broker: InProcessBroker) -> None:
    assert broker.siltstone("groups").out == "There are no consumer groups.\n"
    assert broker.siltstone("groups", "--json").json == {"groups": []}


def test_the_list_and_nothing_but_the_list(broker: InProcessBroker, topic: str) -> None:
    member = joined_member(broker, topic, "g", [0, 1])
    broker.wait(member.commit(4, partition=1, topic=topic))
    listed = broker.siltstone("groups")
    assert listed.out.splitlines()[-1].split() == ["g", "stable", "1", "6", "85", "B", "-", "0", "t"]
    assert broker.siltstone("groups", "--json").json["groups"] == [
        {
            "group": "g",
            "state": "Stable",
            "members": 1,
            "topics": ["t"],
            "lag": 6,
            "partitions_without_commit": 0,
            "lag_bytes": 85,
            "lag_seconds_min": None,
        }
    ]
    assert "g" not in broker.siltstone("groups", "delete", "g", "--yes").out
    assert list(module.groups.commands) == ["list", "describe", "reset", "delete"]
