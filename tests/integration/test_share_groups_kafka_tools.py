"""Kafka's own tools list, describe, reset and delete a share group."""

from contextlib import closing, nullcontext
from pathlib import Path

import pytest
from confluent_kafka import AcknowledgeType

from integration.test_share_groups import confluent, made_ready, polled, produce
from oracles.java_tools import KafkaTools
from support.broker.broker_process import BrokerProcess
from support.kafka.kafka_oracles import or_skip

GROUP, TOPIC = "sorters", "orders"


class ShareGroupTool:
    def __init__(self, tools: KafkaTools) -> None:
        self._tools = tools

    def rows(self, *options: str) -> list[list[str]]:
        """The words of each line that the tool prints, without the heading."""
        printed = self._tools.output("kafka-share-groups", *options)
        return [line.split() for line in printed.splitlines() if line.strip()][1:]

    def described(self, *options: str) -> list[list[str]]:
        return self.rows("--describe", "--group", GROUP, *options)

    def reset(self, *options: str) -> list[list[str]]:
        return self.rows("--reset-offsets", "--group", GROUP, "--topic", TOPIC, *options)


@pytest.mark.kafka
@pytest.mark.clients
@pytest.mark.nightly(tried="commands of kafka-share-groups")
@pytest.mark.xdist_group("kafka")
@pytest.mark.timeout(300)
def test_kafka_share_groups_shows_resets_and_deletes(tmp_path: Path) -> None:
    with (
        BrokerProcess(tmp_path / "store") as broker,
        or_skip(lambda: nullcontext(KafkaTools(broker.bootstrap_servers))) as tools,
    ):
        tool = ShareGroupTool(tools)
        made_ready(broker, TOPIC, GROUP, 10)
        with closing(confluent(broker, GROUP, TOPIC)) as member:
            assert len(polled(member, 10, AcknowledgeType.ACCEPT)) == 10
            assert [row[-1] for row in tool.described("--members", "--verbose")] == [f"{TOPIC}:0"]
            assert tool.described("--state")[0][-2:] == ["Stable", "1"]
        produce(broker, TOPIC, 10, 13)
        assert tool.rows("--list", "--state") == [[GROUP, "Empty"]]
        assert tool.described("--verbose") == [[GROUP, TOPIC, "0", "0", "10", "3"]], (
            "leader epoch, start, lag"
        )
        assert tool.reset("--to-earliest", "--dry-run") == [[GROUP, TOPIC, "0", "0"]]
        assert tool.described("--offsets") == [[GROUP, TOPIC, "0", "10", "3"]], "a dry run changes nothing"
        tool.reset("--to-earliest", "--execute")
        assert tool.described("--offsets") == [[GROUP, TOPIC, "0", "0", "13"]]
        tool.reset("--to-latest", "--execute")
        assert tool.described("--offsets") == [[GROUP, TOPIC, "0", "13", "0"]]
        assert tool.rows("--delete-offsets", "--group", GROUP, "--topic", TOPIC) == [[TOPIC, "Successful"]]
        assert tool.described("--offsets") == []
        tool.rows("--delete", "--group", GROUP)
        assert tool.rows("--list") == []
