"""Scenarios of an operator with each tool, and what the tool has to print."""

import csv
import json
import re
import tempfile
from collections.abc import Callable
from typing import Any

import msgspec

from conformance.drivers.java.secured import settings
from conformance.drivers.payloads import START_MS
from conformance.drivers.scenario import Mismatch, Scenario, holds, same, until
from conformance.drivers.secured import access_of
from oracles.java_tools import KafkaTools

TOOL_SECONDS_MAX = 40


class ToolFailed(Exception):
    """The tool ended with an error; the text of the exception is its output."""


def run(scenario: Scenario, tool: str, *options: str, text: str = "") -> str:
    """Returns the output of the tool. Raises ToolFailed."""
    done = KafkaTools(scenario.bootstrap).run(tool, *options, text=text, timeout_seconds=TOOL_SECONDS_MAX)
    if done.status != 0:
        raise ToolFailed(f"{tool} ended with {done.status}: {done.output.strip()} {done.errors.strip()}")
    return done.output


def fails(word: str, call: Callable[[], object]) -> None:
    try:
        told = call()
    except ToolFailed as failed:
        told = failed
    holds(f"no {word} in: {told}", word in str(told))


def kafka_topics(scenario: Scenario) -> None:
    name = scenario.name

    def topics(*options: str) -> str:
        return run(scenario, "kafka-topics", *options)

    topics("--create", "--topic", name, "--partitions", "3", "--config", "retention.ms=60000")
    fails("already exists", lambda: topics("--create", "--topic", name))
    holds("it is not listed", name in topics("--list").split())
    topics("--alter", "--topic", name, "--partitions", "4")
    described = topics("--describe", "--topic", name)
    holds(f"not four partitions: {described}", "PartitionCount: 4" in described)
    holds(f"no retention.ms: {described}", "retention.ms=60000" in described)
    same("partitions", re.findall(r"Partition: (\d)", described), ["0", "1", "2", "3"])
    topics("--delete", "--topic", name)
    until("it is gone", lambda: name not in topics("--list").split())


def kafka_configs(scenario: Scenario) -> None:
    entity = ("--entity-type", "topics", "--entity-name", scenario.topic())

    def configs(*options: str) -> str:
        return run(scenario, "kafka-configs", *entity, *options)

    configs("--alter", "--add-config", "retention.ms=1000,cleanup.policy=compact")
    described = configs("--describe")
    holds(f"retention.ms is not there: {described}", "retention.ms=1000" in described)
    configs("--alter", "--delete-config", "retention.ms")
    described = configs("--describe")
    holds(f"retention.ms is still there: {described}", "retention.ms=1000" not in described)
    holds(f"cleanup.policy is not there: {described}", "cleanup.policy=compact" in described)
    fails("no.such", lambda: configs("--alter", "--add-config", "no.such=1"))


def kafka_consumer_groups(scenario: Scenario) -> None:
    topic, group = scenario.filled(10), scenario.name

    def groups(*options: str) -> str:
        return run(scenario, "kafka-consumer-groups", *options)

    reset = ("--group", group, "--topic", topic, "--reset-offsets", "--execute")
    groups(*reset, "--to-offset", "4")
    holds("it is not listed", group in groups("--list").split())
    described = groups("--describe", "--group", group)
    holds(f"offset, end and lag: {described}", re.search(rf"{topic}\s+0\s+4\s+10\s+6\s", described))
    groups(*reset, "--shift-by", "2")
    described = groups("--describe", "--group", group, "--offsets")
    holds(f"offset after a shift: {described}", re.search(rf"{topic}\s+0\s+6\s+10\s+4\s", described))
    holds("not empty", "Empty" in groups("--describe", "--group", group, "--state"))
    told = groups("--delete-offsets", "--group", group, "--topic", topic)
    holds(f"offsets are not deleted: {told}", "Successful" in told)
    told = groups("--delete", "--group", group)
    holds(f"the group is not deleted: {told}", "was successful" in told)
    holds("it is still listed", group not in groups("--list").split())


def kafka_get_offsets(scenario: Scenario) -> None:
    topic = scenario.filled(10, 2, first_timestamp_ms=START_MS, step_ms=10)
    for time, wanted in (("earliest", 0), ("latest", 10), ("max-timestamp", 9), (str(START_MS + 35), 4)):
        told = run(scenario, "kafka-get-offsets", "--topic", topic, "--time", time)
        same(
            f"offsets for {time}", sorted(told.split()), [f"{topic}:{number}:{wanted}" for number in range(2)]
        )


def kafka_transactions(scenario: Scenario) -> None:
    """A producer that hangs is found, described and aborted as an operator does it."""
    from confluent_kafka import Producer

    topic = scenario.topic()
    producer = Producer({"bootstrap.servers": scenario.bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(TOOL_SECONDS_MAX)
    producer.begin_transaction()
    producer.produce(topic, b"hangs")
    producer.flush(TOOL_SECONDS_MAX)
    told = run(scenario, "kafka-transactions", "list")
    holds(f"not listed as ongoing: {told}", re.search(rf"{topic}\s.*Ongoing", told))
    told = run(scenario, "kafka-transactions", "describe", "--transactional-id", topic)
    holds(f"no partition: {told}", re.search(rf"Ongoing.*{topic}-0", told))
    told = run(scenario, "kafka-transactions", "describe-producers", "--topic", topic, "--partition", "0")
    holds(f"no open transaction: {told}", re.search(r"^\d+\s+0\s.*\s0\s*$", told, re.MULTILINE))
    run(scenario, "kafka-transactions", "abort", "--topic", topic, "--partition", "0", "--start-offset", "0")
    told = run(scenario, "kafka-transactions", "describe-producers", "--topic", topic, "--partition", "0")
    holds(f"it is still open: {told}", re.search(r"None\s*$", told, re.MULTILINE))


def kafka_delete_records(scenario: Scenario) -> None:
    topic = scenario.filled(10)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 5}]}))
        file.flush()
        told = run(scenario, "kafka-delete-records", "--offset-json-file", file.name)
    holds(f"low watermark: {told}", re.search(rf"{topic}-0\s+low_watermark: 5", told))
    earliest = run(scenario, "kafka-get-offsets", "--topic", topic, "--time", "earliest")
    same("earliest", earliest.strip(), f"{topic}:0:5")


def kafka_broker_api_versions(scenario: Scenario) -> None:
    told = run(scenario, "kafka-broker-api-versions")
    holds(f"whose they are: {told[:100]}", told.startswith(scenario.bootstrap))
    holds(f"no usable Produce: {told[:300]}", re.search(r"Produce\(0\): 0 to \d+ \[usable: \d+\]", told))


def kafka_cluster(scenario: Scenario) -> None:
    told = run(scenario, "kafka-cluster", "cluster-id")
    holds(f"no cluster id: {told}", re.search(r"Cluster ID: \S{16,}", told))


def console(scenario: Scenario) -> None:
    topic = scenario.topic()
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    run(scenario, "kafka-console-producer", "--topic", topic, *keyed, text="a:1\nb:2\nc:ä\n")
    shown = ("--formatter-property", "print.key=true", "--formatter-property", "print.offset=true")
    begin = ("--from-beginning", "--max-messages", "3", "--timeout-ms", "20000")
    told = run(scenario, "kafka-console-consumer", "--topic", topic, *begin, *shown)
    same("records", told.splitlines(), ["Offset:0\ta\t1", "Offset:1\tb\t2", "Offset:2\tc\tä"])


def producer_perf(scenario: Scenario) -> None:
    topic = scenario.topic(3)
    _perf_records(scenario, topic)
    told = run(scenario, "kafka-get-offsets", "--topic", topic, "--time", "latest")
    same("records stored", sum(int(line.rpartition(":")[2]) for line in told.split()), 20_000)


def _perf_records(scenario: Scenario, topic: str) -> None:
    size = ("--num-records", "20000", "--record-size", "500", "--throughput", "-1")
    told = run(scenario, "kafka-producer-perf-test", "--topic", topic, *size)
    holds(f"not all were sent: {told}", "20000 records sent" in told)


def consumer_perf(scenario: Scenario) -> None:
    topic = scenario.topic(3)
    _perf_records(scenario, topic)
    told = run(
        scenario, "kafka-consumer-perf-test", "--topic", topic, "--num-records", "20000", "--timeout", "20000"
    )
    heads, figures = [*csv.reader(told.splitlines(), skipinitialspace=True)][-2:]
    same("records read", dict(zip(heads, figures, strict=True)).get("data.consumed.in.nMsg"), "20000")


def verifiable_producer(scenario: Scenario) -> None:
    topic = scenario.topic()
    events = _events(run(scenario, "kafka-verifiable-producer", "--topic", topic, "--max-messages", "200"))
    sent = [event for event in events if event["name"] == "producer_send_success"]
    same("offsets", [event["offset"] for event in sent], [*range(200)])
    same("values", [event["value"] for event in sent], [str(number) for number in range(200)])


def verifiable_consumer(scenario: Scenario) -> None:
    topic = scenario.filled(100, 2)
    group = ("--group-id", scenario.name, "--max-messages", "200", "--reset-policy", "earliest")
    events = _events(run(scenario, "kafka-verifiable-consumer", "--topic", topic, *group))
    (assigned,) = [event["partitions"] for event in events if event["name"] == "partitions_assigned"]
    same("assigned", sorted(each["partition"] for each in assigned), [0, 1])
    consumed = [
        each for event in events if event["name"] == "records_consumed" for each in event["partitions"]
    ]
    same("records read", sum(each["count"] for each in consumed), 200)
    committed = [event for event in events if event["name"] == "offsets_committed"]
    holds("a commit failed", committed and all(event["success"] for event in committed))
    last = {each["partition"]: each["offset"] for event in committed for each in event["offsets"]}
    same("committed", last, {0: 100, 1: 100})


def tools_login(scenario: Scenario) -> None:
    """An operator with a file of client settings, as Kafka's own page has it."""
    topic, access = scenario.name, access_of(scenario, "tools_login")
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as file:
        file.write("".join(f"{name}={value}\n" for name, value in settings(access).items()))
        file.flush()
        within = msgspec.structs.replace(scenario, bootstrap=access.bootstrap)
        options = ("--command-config", file.name)
        run(within, "kafka-topics", "--create", "--topic", topic, *options)
        rights = ("--add", "--allow-principal", "User:eve", "--operation", "Read", "--topic", topic)
        run(within, "kafka-acls", *rights, *options)
        told = run(within, "kafka-acls", "--list", "--topic", topic, *options)
        holds(f"not listed: {told}", "principal=User:eve" in told)
        run(within, "kafka-console-producer", "--topic", topic, *options, text="1\n2\n")
        begin = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "20000")
        told = run(within, "kafka-console-consumer", "--topic", topic, *begin, *options)
        same("records", told.splitlines(), ["1", "2"])


def _events(told: str) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    except json.JSONDecodeError:
        raise Mismatch(f"no events: {told[:200]}") from None


def refusal(error: Exception) -> str | None:
    return str(error) if isinstance(error, ToolFailed) else None


SCENARIOS = {
    "kafka_topics": kafka_topics, "kafka_configs": kafka_configs, "kafka_consumer_groups": kafka_consumer_groups,
    "kafka_get_offsets": kafka_get_offsets, "kafka_delete_records": kafka_delete_records,
    "kafka_transactions": kafka_transactions,
    "kafka_broker_api_versions": kafka_broker_api_versions, "kafka_cluster": kafka_cluster, "console": console,
    "producer_perf": producer_perf, "consumer_perf": consumer_perf, "verifiable_producer": verifiable_producer,
    "verifiable_consumer": verifiable_consumer, "tools_login": tools_login,
}  # fmt: skip
