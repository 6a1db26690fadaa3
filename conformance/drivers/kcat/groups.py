"""Scenarios of consumer groups and of kcat's list of a cluster. kcat has no other administration."""

import json
import re
from collections.abc import Callable
from contextlib import ExitStack

from conformance.drivers.kcat.program import (
    Running,
    member,
    run,
    values_of,
)
from conformance.drivers.payloads import START_MS
from conformance.drivers.scenario import Scenario, holds, same, until, values

PARTITIONS = 6


def every_record_once(*options: str) -> Callable[[Scenario], None]:
    def scenario_of_members(scenario: Scenario) -> None:
        topic = scenario.topic(PARTITIONS)
        with ExitStack() as started:
            members = [started.enter_context(member(scenario, topic, *options)) for _ in range(2)]
            fill_all(scenario, topic, range(20))
            until("two members with three each", lambda: _owned(members) == [3, 3])
            members.append(started.enter_context(member(scenario, topic, *options)))
            fill_all(scenario, topic, range(20, 40))
            until("three members with two each", lambda: _owned(members) == [2, 2, 2])
            members[0].end()
            fill_all(scenario, topic, range(40, 60))
            until("two members again", lambda: _owned(members[1:]) == [3, 3])
            until("360 records", lambda: sum(len(each.records) for each in members) >= 360)
            for left in members[1:]:
                left.end()
        got = sorted(record.value or b"" for each in members for record in each.records)
        same("records", got, sorted(value for part in range(PARTITIONS) for value in values(part, range(60))))

    return scenario_of_members


def _owned(members: list[Running]) -> list[int]:
    return [each.partitions for each in members]


def fill_all(scenario: Scenario, topic: str, wanted: range) -> None:
    for partition in range(PARTITIONS):
        scenario.ask("fill", topic=topic, count=len(wanted), partition=partition, first=wanted.start)


def static_member(scenario: Scenario) -> None:
    topic = scenario.topic(PARTITIONS)
    with member(scenario, topic, "-X", "group.instance.id=stays") as stays:
        with member(scenario, topic, "-X", "group.instance.id=returns") as returns:
            until(
                "three partitions each",
                lambda: _owned([stays, returns]) == [3, 3],
            )
            rebalances = stays.rebalances
            returns.end()
        with member(scenario, topic, "-X", "group.instance.id=returns") as again:
            until("its partitions again", lambda: again.partitions == 3)
            fill_all(scenario, topic, range(5))
            until("all records", lambda: len(stays.records) + len(again.records) == 5 * PARTITIONS)
            same("rebalances that the other saw", stays.rebalances, rebalances)


def group_restart(scenario: Scenario) -> None:
    topic = scenario.filled(100)
    with member(scenario, topic, "-c", "50") as reader:
        reader.wait()
        same("before", values_of(reader.records), values(0, range(50)))
    scenario.ask("kill")
    scenario.ask("start")
    with member(scenario, topic, "-c", "50") as reader:
        reader.wait()
        same("after", values_of(reader.records), values(0, range(50, 100)))


def cluster(scenario: Scenario) -> None:
    topic = scenario.topic(4)
    found = json.loads(run(scenario, "-L", "-J"))
    same("brokers", [broker["name"] for broker in found["brokers"]], [scenario.bootstrap])
    same("controller", found["controllerid"], found["brokers"][0]["id"])
    described = {each["topic"]: each["partitions"] for each in found["topics"]}
    same("leaders", {each["leader"] for each in described[topic]}, {found["controllerid"]})
    same("partitions", len(described[topic]), 4)


def list_offsets(scenario: Scenario) -> None:
    topic = scenario.filled(100, first_timestamp_ms=START_MS, step_ms=10)
    for asked, wanted in ((-2, 0), (-1, 100), (START_MS + 555, 56), (START_MS + 5_000, -1)):
        told = run(scenario, "-Q", "-t", f"{topic}:0:{asked}").decode()
        found = re.search(r"offset (-?\d+)", told)
        holds(f"no offset in {told!r}", found)
        same(f"offset for {asked}", found and int(found[1]), wanted)


SCENARIOS = {
    "rebalance": every_record_once(),
    "cooperative": every_record_once("-X", "partition.assignment.strategy=cooperative-sticky"),
    "static_member": static_member, "group_restart": group_restart, "cluster": cluster, "list_offsets": list_offsets,
}  # fmt: skip
CHANGES = (
    "topics", "partitions", "describe_configs", "alter_configs", "incremental_alter", "groups", "group_offsets",
    "delete_records",
)  # fmt: skip
LACKS = {
    "manual_commit": "kcat commits by itself only",
    "kip848": "librdkafka 2.0.2 has the classic protocol only",
    "share_group": "kcat has no share groups",
    **dict.fromkeys(CHANGES, "kcat changes nothing in a cluster"),
}
PARTLY = {"list_offsets": "kcat has no max timestamp", "cluster": "kcat shows no cluster id"}
