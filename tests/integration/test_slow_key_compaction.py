"""Batches that unpack to a thousand times their size, a broker, and ``siltstone maintain run`` as a process (K33)."""

import os
import subprocess
import sys
from pathlib import Path

import siltstone
from siltstone.kafka_protocol.batch_header import Codec
from siltstone.kafka_protocol.records.building import build_batch
from siltstone.kafka_protocol.records.reading import Record
from siltstone.model.limits import MIB
from support.broker.keyed_broker import Keyed, table_of
from support.kafka.raw_calls import create_topic, produce_well
from support.kafka.raw_kafka import RawConnection, address_of
from support.maintenance.compacted_store import maintained, roll, split

PROGRAM = "from siltstone.cli.main import main; main()"
BATCHES = 6


def compacted(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, "maintain", "run", "--kind", "key-compaction", "--force"]
    return subprocess.run(
        [*command, "--runner", "in-process", "--store", str(folder), *arguments],
        env=os.environ | {"COLUMNS": "140"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def filled(folder: Path) -> None:
    """Topic ``slow`` unpacks to 120 MB, which takes longer than 12 ms on any machine."""
    with (
        siltstone.Broker(folder) as broker,
        RawConnection(address_of(broker.bootstrap_servers)) as connection,
    ):
        topic = create_topic(connection, "slow", configs={"cleanup.policy": "compact"})
        for _ in range(BATCHES):
            record = Record(timestamp_ms=1_700_000_000_000, key=b"key", value=bytes(20 * MIB))
            produce_well(connection, topic, build_batch([record], compression=Codec.ZSTD))
        broker.flush()
    with maintained(folder) as context:
        split(context)
        roll(context)


def test_an_allowance_that_is_too_short_is_named_and_a_longer_one_suffices(tmp_path: Path) -> None:
    filled(tmp_path)
    too_short = compacted(tmp_path, "--set", "maintenance.key_compaction.allowance_ms=1")
    assert too_short.returncode == 1, too_short
    words = " ".join(too_short.stdout.split())
    assert "slow-0: failed: a pass over it takes longer than 16 ms" in words
    assert "set maintenance.key_compaction.allowance_ms higher" in words
    assert "Traceback" not in too_short.stderr
    enough = compacted(tmp_path)
    assert enough.returncode == 0, enough
    assert f"1 of {BATCHES} records kept" in " ".join(enough.stdout.split())
    with (
        siltstone.Broker(tmp_path) as broker,
        RawConnection(address_of(broker.bootstrap_servers)) as connection,
    ):
        table, count = table_of(connection, Keyed.topic_of(connection, "slow"))
    assert (count, len(table[b"key"])) == (1, 20 * MIB)
