"""The synonyms of topic configurations that have their default are those of a real Apache Kafka."""

import time

import pytest

import siltstone
from oracles.apache_kafka import running_apache_kafka
from oracles.java_artifacts import JavaArtifactsUnavailable
from siltstone.kafka_protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from support.kafka.raw_calls import create_topic
from support.kafka.raw_kafka import RawConnection

pytestmark = [pytest.mark.kafka, pytest.mark.nightly]

TOPIC = 2
OF_THE_CLUSTER = {"min.insync.replicas"}
"""Kafka has a record of the cluster for it (KIP-966)."""

SECONDS_MAX = 60


def synonyms(bootstrap: str) -> dict[str, list[tuple[str, str | None, int]]]:
    host, port = bootstrap.split(":")
    wanted = DescribeConfigsResource(resource_type=TOPIC, resource_name="t", configuration_keys=None)
    request = DescribeConfigsRequest(resources=[wanted], include_synonyms=True)
    with RawConnection((host, int(port))) as client:
        create_topic(client, "t")
        deadline = time.monotonic() + SECONDS_MAX
        while not (rows := client.ask(request, 4).results[0].configs):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    return {row.name: [(each.name, each.value, int(each.source)) for each in row.synonyms] for row in rows}


def test_synonyms_are_kafkas(record_tried) -> None:
    try:
        with running_apache_kafka() as kafka:
            theirs = synonyms(kafka.bootstrap_servers)
    except JavaArtifactsUnavailable as reason:
        pytest.skip(str(reason))
    with siltstone.Broker() as broker:
        ours = synonyms(broker.bootstrap_servers)
    both = (theirs.keys() & ours.keys()) - OF_THE_CLUSTER
    record_tried("configurations", len(both))
    assert {name: ours[name] for name in both} == {name: theirs[name] for name in both}
