"""Kafka's own tools move partitions of a cluster, elect leaders, and forget a node (M17)."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oracles.java_tools import KafkaTools
from siltstone.server.embedded import Broker
from support.broker.one_sided_cluster import leaders
from support.kafka.kafka_oracles import or_skip
from support.processes.tried import RecordTried


@contextmanager
def tools_of_cluster() -> Iterator[tuple[Broker, KafkaTools]]:
    with Broker(nodes=3) as broker:
        broker.create_topic("t", partitions=3)
        yield broker, KafkaTools(broker.bootstrap_servers)


def reassignment(path: Path, replicas: list[list[int]]) -> Path:
    """``replicas``: of each partition of topic t."""
    rows = [{"topic": "t", "partition": at, "replicas": each} for at, each in enumerate(replicas)]
    path.write_text(json.dumps({"version": 1, "partitions": rows}))
    return path


@pytest.mark.kafka
@pytest.mark.nightly
@pytest.mark.xdist_group("kafka")
@pytest.mark.timeout(600)
def test_m17_kafka_s_own_tools_move_partitions_and_forget_a_node(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    with or_skip(tools_of_cluster) as (broker, tools):
        before = leaders(broker)
        assert sorted(before) == [0, 1, 2]
        _reassign(tools, broker, tmp_path, [(leader + 1) % 3 for leader in before])
        refused = tools.run(
            "kafka-reassign-partitions", "--execute", "--reassignment-json-file",
            str(reassignment(tmp_path / "two.json", [[0, 1]] * 3)),
        )  # fmt: skip
        assert "the bucket keeps the copies" in refused.output + refused.errors
        topics = tmp_path / "topics.json"
        topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "t"}]}))
        proposed = tools.output(
            "kafka-reassign-partitions",
            "--generate",
            "--topics-to-move-json-file",
            str(topics),
            "--broker-list",
            "0,1",
        )
        assert "Proposed partition reassignment configuration" in proposed
        assert '"partition":"t-0"' in tools.output("kafka-log-dirs", "--describe", "--topic-list", "t")
        assert "Valid replica already elected" in tools.output(
            "kafka-leader-election", "--election-type", "preferred", "--topic", "t", "--partition", "0"
        )
        assert "live" in (both := tools.run("kafka-cluster", "unregister", "--id", "2")).output + both.errors
        _reassign(tools, broker, tmp_path, [0, 1, 0])
        record_tried("commands of Kafka's tools", 10)


def _reassign(tools: KafkaTools, broker: Broker, folder: Path, targets: list[int]) -> None:
    """--execute, --list, --verify: the last one also removes throttles from every broker and topic."""
    file = str(reassignment(folder / "moves.json", [[target] for target in targets]))
    said = tools.output("kafka-reassign-partitions", "--execute", "--reassignment-json-file", file)
    assert "Successfully started partition reassignments for t-0,t-1,t-2" in said
    listed = tools.output("kafka-reassign-partitions", "--list")
    assert "No partition reassignments found." in listed or "Current partition reassignments" in listed
    verified = tools.output("kafka-reassign-partitions", "--verify", "--reassignment-json-file", file)
    assert verified.count("is completed") == 3, verified
    assert "Clearing broker-level throttles on brokers 0,1,2" in verified
    assert "Clearing topic-level throttles on topic t" in verified
    assert leaders(broker) == targets
