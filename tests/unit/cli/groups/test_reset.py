import pytest

from support.broker.in_process import InProcessBroker
from support.groups.served_member import joined_member
from support.processes.cli import assert_one_line

LOOKS = """\
topic  partition  before  after  change
───────────────────────────────────────
t              0       -      0  -
t              1       9      4  -5
"""


@pytest.fixture
def group(broker: InProcessBroker, topic: str) -> str:
    """It has no member any more, and committed offset 9 of partition 1."""
    member = joined_member(broker, topic, "g", [0, 1])
    broker.wait(member.commit(9, partition=1, topic=topic))
    broker.wait(member.leave())
    return "g"


def committed(broker: InProcessBroker) -> dict[int, int]:
    rows = broker.siltstone("groups", "describe", "g", "--json").json["partitions"]
    return {row["partition"]: row["committed_offset"] for row in rows if row["committed_offset"] is not None}


def test_a_dry_run_shows_what_would_change(broker: InProcessBroker, group: str) -> None:
    words = ("groups", "reset", group, "--topic", "t", "--topic", "t", "--to", 4, "--dry-run")
    dry = broker.siltstone(*words)
    assert [line.rstrip() for line in dry.out.splitlines()] == [
        line.rstrip()
        for line in LOOKS.replace("  -\n", "       -\n").replace("  -5", "      -5").splitlines()
    ]
    assert (dry.status, dry.err, committed(broker)) == (0, "Nothing was changed.\n", {1: 9})
    assert broker.siltstone(*words, "--json").json == {
        "group": "g",
        "dry_run": True,
        "partitions": [
            {"topic": "t", "partition": 0, "before": None, "after": 0},
            {"topic": "t", "partition": 1, "before": 9, "after": 4},
        ],
    }


def test_the_offsets_are_committed(broker: InProcessBroker, group: str) -> None:
    done = broker.siltstone("groups", "reset", group, "--topic", "t", "--to", "latest", "--partition", 1)
    assert (done.status, done.err, committed(broker)) == (0, "", {1: 10})
    assert done.out.splitlines()[-1].split() == ["t", "1", "9", "10", "+1"]
    told = broker.siltstone("groups", "reset", group, "--topic", "t", "--to", "earliest", "--json").json
    assert (told["dry_run"], committed(broker)) == (False, {0: 0, 1: 0})


def test_a_group_with_members_keeps_its_offsets(broker: InProcessBroker, group: str) -> None:
    joined_member(broker, "t", "g", [0, 1])
    refused = broker.siltstone("groups", "reset", group, "--topic", "t", "--to", 0)
    assert_one_line(refused, 2, "group g is stable and has 1 member: stop them first")
    assert committed(broker)[1] == 9


def test_what_does_not_exist_is_refused(broker: InProcessBroker, group: str) -> None:
    unknown = broker.siltstone("groups", "reset", "h", "--topic", "t", "--to", 0)
    assert_one_line(unknown, 2, "there is no consumer group h")
    assert_one_line(broker.siltstone("groups", "reset", group, "--topic", "u", "--to", 0), 2, "no topic u")
    far = broker.siltstone("groups", "reset", group, "--topic", "t", "--to", 0, "--partition", 2)
    assert_one_line(far, 2, "topic t has no partition 2")
    assert_one_line(broker.siltstone("groups", "reset", group, "--topic", "t", "--to", "x"), 2, "--to 'x'")
