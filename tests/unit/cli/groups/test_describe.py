import re

import msgspec
import pytest

from siltstone.cli.groups import describe as module
from siltstone.cli.groups.describe import GroupPartition
from siltstone.cli.groups.lag import LagRate, PartitionLag
from siltstone.kafka_client.cluster import TopicPartition
from siltstone.kafka_client.groups import GroupSummary, ListedMember
from siltstone.runtime.clock import ManualClock
from support.broker.in_process import InProcessBroker
from support.groups.served_member import joined_member

LOOKS = """\
group        g
state        stable
members      1
assignor     range
coordinator  broker 7 at kafka.example:9092
lag          6 records, about 85 B

topic  partition  committed  end  lag  member  host
──────────────────────────────────────────────────────────────
t              0          -    0    -  MEMBER  client.example
t              1          4   10    6  MEMBER  client.example
"""


@pytest.fixture
def busy(broker: InProcessBroker, topic: str) -> InProcessBroker:
    member = joined_member(broker, topic, "g", [0, 1])
    broker.wait(member.commit(4, partition=1, topic=topic))
    return broker


def squeezed(text: str) -> list[list[str]]:
    return [re.sub(r"a client-[0-9a-f]{8}…", "MEMBER", line).split() for line in text.splitlines()]


def test_how_a_group_looks(busy: InProcessBroker) -> None:
    shown = busy.siltstone("groups", "describe", "g")
    assert [line for line in squeezed(shown.out) if "─" not in "".join(line)] == [
        line.split() for line in LOOKS.splitlines() if "─" not in line
    ]


def test_a_group_as_json(busy: InProcessBroker) -> None:
    told = busy.siltstone("groups", "describe", "g", "--json").json
    (member,) = told["members"]
    assert (told["group"], told["state"], told["assignor"], told["coordinator"]) == (
        "g",
        "Stable",
        "range",
        7,
    )
    assert (member["client"], member["host"], member["instance"]) == ("a client", "client.example", None)
    assert [part["partition"] for part in member["partitions"]] == [0, 1]
    assert told["partitions"] == [
        {"topic": "t", "partition": 0, "committed_offset": None, "end_offset": 0, "lag": None, "lag_bytes": None,
         "member": member["member"]},
        {"topic": "t", "partition": 1, "committed_offset": 4, "end_offset": 10, "lag": 6, "lag_bytes": 85,
         "member": member["member"]},
    ]  # fmt: skip


def test_partitions_that_were_never_committed_are_listed_and_counted(
    broker: InProcessBroker, topic: str
) -> None:
    broker.siltstone("produce", topic, "-p", "0", stdin=b"a\nb\n")
    member = joined_member(broker, topic, "g", [1])
    broker.wait(member.commit(4, partition=1, topic=topic))
    shown = broker.siltstone("groups", "describe", "g")
    assert "≥ 6 records, about 85 B: 1 partition with records has no committed offset yet" in " ".join(
        shown.out.split()
    )
    assert ["t", "0", "-", "2", "-", "-", "-"] in squeezed(shown.out)
    assert broker.siltstone("groups", "describe", "g", "--json").json["partitions_without_commit"] == 1
    (row,) = broker.siltstone("groups", "--json").json["groups"]
    assert (row["lag"], row["partitions_without_commit"]) == (6, 1)


def test_a_live_member_that_has_not_committed_yet(broker: InProcessBroker, topic: str) -> None:
    broker.siltstone("produce", topic, "-p", "0", stdin=b"a\nb\n")
    joined_member(broker, topic, "g", [0, 1])
    words = " ".join(broker.siltstone("groups", "describe", "g").out.split())
    assert "lag not known: 2 partitions with records have no committed offset yet" in words
    listed = broker.siltstone("groups").out.splitlines()
    assert listed[-1].split() == ["g", "stable", "1", "?", "-", "-", "2", "t"]


def test_the_rate_of_a_lag(busy: InProcessBroker, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock(ManualClock):
        def block_ms(self, duration_ms: float) -> None:
            super().block_ms(duration_ms)
            busy.siltstone("produce", topic, "-p", "1", stdin=b"a\n" * 20)

    monkeypatch.setattr(module, "SystemClock", lambda: Clock(0))
    words = " ".join(busy.siltstone("groups", "describe", "g", "--rate", "10").out.split())
    assert "lag 26 records" in words
    assert "rate the lag grows by 2.0 records/s: 2.0 written/s, 0.0 committed/s in 10 s" in words
    rate = busy.siltstone("groups", "describe", "g", "--rate", "5", "--json").json["rate"]
    assert rate == {"seconds": 5.0, "written_per_s": 4.0, "committed_per_s": 0.0, "lag_change_per_s": 4.0}
    assert "rate" not in busy.siltstone("groups", "describe", "g", "--json").json


def test_a_lag_that_shrinks_and_one_that_stays() -> None:
    assert module._rate_words(LagRate(10, 20, 120), 600) == (
        "the lag shrinks by 10.0 records/s, gone in 60.0 s: 2.0 written/s, 12.0 committed/s in 10 s"
    )
    assert module._rate_words(LagRate(2, 0, 10), 0) == (
        "the lag shrinks by 5.0 records/s: 0.0 written/s, 5.0 committed/s in 2 s"
    )
    assert module._rate_words(LagRate(2, 10, 10), 5) == "the lag stays: 5.0 written/s, 5.0 committed/s in 2 s"


def test_a_member_without_a_partition_is_listed_by_itself(broker: InProcessBroker, topic: str) -> None:
    joined_member(broker, topic, "g", [])
    shown = broker.siltstone("groups", "describe", "g")
    assert squeezed(shown.out)[-1] == ["MEMBER", "client.example"]
    assert "member without a partition" in shown.out and "committed" not in shown.out


def test_a_group_whose_members_have_left(busy: InProcessBroker) -> None:
    busy.wait(busy.world.pass_ms(60_000))
    shown = busy.siltstone("groups", "describe", "g")
    assert squeezed(shown.out)[-1] == ["t", "1", "4", "10", "6", "-", "-"]
    assert ["members", "0"] in squeezed(shown.out) and "assignor" not in shown.out
    assert "without a partition" not in shown.out


def test_what_a_broker_does_not_report(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A group of the KIP-848 protocol with an offset in a topic that was deleted."""
    gone = GroupPartition(PartitionLag(TopicPartition("old", 0), 3, None), None)
    kept = GroupPartition(
        PartitionLag(TopicPartition("t", 0), 3, 1234),
        ListedMember("m", None, "c", "h", (TopicPartition("t", 0),)),
    )
    facts = module._facts(GroupSummary("g", "Stable"), [gone, kept], "?")
    module.results(100).print(facts)
    assert squeezed(capsys.readouterr().out) == [
        ["group", "g"],
        ["state", "stable"],
        ["members", "not", "reported", "by", "this", "broker"],
        ["lag", "1,231", "records"],
    ]
    module.results(100).print(module._partitions_table([gone, kept]))
    assert squeezed(capsys.readouterr().out)[2:] == [
        ["old", "0", "3", "deleted", "-", "-", "-"],
        ["t", "0", "3", "1,234", "1,231", "m", "h"],
    ]
    document = module._as_json(GroupSummary("g", "Stable"), [gone])
    assert document["members"] is None and msgspec.json.encode(document)
    told = module._facts(GroupSummary("g", "Empty", coordinator=0, members=()), [], "h:1")
    module.results(100).print(told)
    assert "broker 0 at h:1" in capsys.readouterr().out
