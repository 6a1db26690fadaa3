import re

import pytest

from siltstone.cli.topics import describe as module
from siltstone.cli.topics.describe import PartitionRow, partition_rows
from siltstone.kafka_client.offsets import NEWEST, Ends, FoundOffset
from siltstone.kafka_protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from support.broker.in_process import InProcessBroker

LOOKS = """\
topic  t
id     ID

partition  leader  epoch  start  end  records  newest
──────────────────────────────────────────────────────────────────
        0       7      0      0    0        0  -
        1       7      0      1    3        2  2013-07-01 12:00:02

configuration   value   set by
──────────────────────────────
cleanup.policy  delete  topic
retention.ms    -1      topic
"""
NOON_MS = 1_372_680_000_000  # 2013-07-01 12:00 UTC


@pytest.fixture
def described(broker: InProcessBroker) -> InProcessBroker:
    """Topic t of two partitions: one is empty, the other has lost its oldest record."""
    broker.siltstone("topics", "create", "t", "--partitions", 2)
    lines = b"".join(
        b'{"value": "v", "partition": 1, "timestamp": %d}\n' % (NOON_MS + 1000 * n) for n in range(3)
    )
    broker.siltstone("produce", "t", "--format", "json", stdin=lines)
    broker.siltstone("topics", "trim", "t", "--before", 1, "--yes")
    return broker


def test_how_a_description_looks(described: InProcessBroker) -> None:
    described.siltstone("topics", "configure", "t", "retention.ms=-1", "cleanup.policy=delete")
    shown = described.siltstone("topics", "describe", "t")
    looks = re.sub(r"id +\S+", "id     ID", shown.out)
    assert [line.rstrip() for line in looks.splitlines()] == LOOKS.splitlines()


def test_the_description_as_json(described: InProcessBroker) -> None:
    told = described.siltstone("topics", "describe", "t", "--json").json
    assert (told["name"], told["is_internal"], told["configs"]) == ("t", False, {})
    assert told["partitions"] == [
        {"partition": 0, "leader": 7, "leader_epoch": 0, "start_offset": 0, "end_offset": 0,
         "newest_timestamp_ms": None},
        {"partition": 1, "leader": 7, "leader_epoch": 0, "start_offset": 1, "end_offset": 3,
         "newest_timestamp_ms": NOON_MS + 2000},
    ]  # fmt: skip


def test_defaults_are_shown_on_request_in_the_order_of_their_names(described: InProcessBroker) -> None:
    assert "Every configuration has its default value (--all shows them)." in described.siltstone(
        "topics", "describe", "t"
    ).out  # fmt: skip
    configs = described.siltstone("topics", "describe", "t", "--all", "--json").json["configs"]
    assert list(configs) == sorted(configs) and len(configs) > 10
    assert configs["cleanup.policy"] == {"value": "delete", "set_by": "default"}


def test_a_partition_without_a_leader_is_a_row_without_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def ends_of(_: object, keys: list) -> dict:
        asked.extend(keys)
        return {key: Ends(1, 4) for key in keys}

    def offsets_at(_: object, keys: list, timestamp: int) -> dict:
        assert timestamp == NEWEST
        return {key: FoundOffset(3, 0) for key in keys}

    monkeypatch.setattr(module, "ends_of", ends_of)
    monkeypatch.setattr(module, "offsets_at", offsets_at)
    partitions = [
        MetadataResponsePartition(partition_index=1, leader_id=5, leader_epoch=2),
        MetadataResponsePartition(partition_index=0, leader_id=-1, leader_epoch=6, error_code=5),
    ]
    rows = partition_rows(None, MetadataResponseTopic(name="t", partitions=partitions))
    assert [key.partition for key in asked] == [1]
    assert rows == [PartitionRow(0, None, 6), PartitionRow(1, 5, 2, 1, 4, 0)]


def test_a_partition_without_a_leader_and_a_hidden_value_are_shown(
    monkeypatch: pytest.MonkeyPatch, broker: InProcessBroker
) -> None:
    broker.siltstone("topics", "create", "t", "--config", "retention.ms=5")
    monkeypatch.setattr(module, "partition_rows", lambda *_: [PartitionRow(0, None, 6)])
    real = module.topic_configs

    def hidden(*asked: object) -> dict:
        return {
            name: {key: type(config)(config.name, None, config.source) for key, config in configs.items()}
            for name, configs in real(*asked).items()
        }

    monkeypatch.setattr(module, "topic_configs", hidden)
    lines = broker.siltstone("topics", "describe", "t").out.splitlines()
    assert lines[5].split() == ["0", "none", "6", "-", "-", "-", "-"]
    assert lines[-1].split() == ["retention.ms", "(hidden)", "topic"]
