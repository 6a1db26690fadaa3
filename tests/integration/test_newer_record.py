"""A cluster of two brokers, of which one does not know a record that the other writes: that one stops and says why, the
other takes its partitions over, and no client loses or sees anything twice.

The older broker is this version without the record (``support.faults.older_serve``). Two real versions run side by side
in tests/crash/test_two_versions.py.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from siltstone.metadata.commands import DrainNode
from siltstone.metadata.features import final_level
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import load_node_settings
from support.broker.broker_process import BrokerProcess, checked_store
from support.broker.cluster_clients import Sending, read_all, until

PARTITIONS = 4
OLDER = (sys.executable, "-m", "support.faults.older_serve", "NodeDraining")
UNKNOWN = "an entry of the metadata log cannot be decoded"

pytestmark = [pytest.mark.crash, pytest.mark.clients]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.mark.nightly(tried="records of a newer version")
def test_a_broker_that_does_not_know_a_record_stops_and_loses_nothing(tmp_path: Path) -> None:
    store = tmp_path / "store"
    newer = BrokerProcess(store, options=("--node-id", "0"))
    older = BrokerProcess(
        store, options=("--node-id", "1"), program=OLDER, environment=environment(), log_name="older"
    )
    with newer, older:
        bootstrap = f"{newer.bootstrap_servers},{older.bootstrap_servers}"
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(60)
        sending = Sending(bootstrap, "t", PARTITIONS)
        _each_gets_more(sending)
        with open_store(load_node_settings(store)) as opened:
            assert set(_leaders(opened)) == {0, 1}, "both versions lead partitions"
            opened.metadata.execute(DrainNode(0, True))
            opened.metadata.execute(DrainNode(0, False))
            assert older.exit_status(60) == 1
            _each_gets_more(sending)
            assert set(_leaders(opened)) == {0}
            version = opened.metadata.refresh().version
            said = subprocess.run(
                [*OLDER, "maintain", "run", "--runner", "in-process", "--store", str(store)],
                capture_output=True, text=True, check=False, env=environment(),
            )  # fmt: skip
            assert said.returncode == 1 and UNKNOWN in said.stderr, said
            assert opened.metadata.refresh().version == version, "an older program writes nothing"
        sending.stop()
        for partition in range(PARTITIONS):
            acked = sending.acked[partition]
            assert read_all(newer.bootstrap_servers, "t", partition, len(acked)) == acked
        refusal = older.log.splitlines()[-1]
        assert UNKNOWN in refusal and "use the version that wrote it" in refusal, refusal
        assert newer.stop() == 0
        assert "Traceback" not in newer.log + older.log
    checked_store(store)


def test_tx39_a_broker_without_a_feature_that_all_have_promised_does_not_start(tmp_path: Path) -> None:
    """While it runs its clients are promised nothing; once all have the feature, it is kept out."""
    store = tmp_path / "store"
    older = (sys.executable, "-m", "support.faults.older_serve", "transaction.version=1")
    options = ("--node-id", "1")
    with BrokerProcess(store, options=("--node-id", "0"), program=older, environment=environment()) as first:
        with BrokerProcess(store, options=options, log_name="newer"):
            assert final_level_in(store) == 1
        assert first.stop() == 0
    with BrokerProcess(store, options=("--node-id", "0")), BrokerProcess(store, options=options):
        assert final_level_in(store) == 2
    command = [*older, "serve", "--store", str(store), "--node-id", "0", "--listener", "127.0.0.1:0"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert refused.returncode == 2 and "Traceback" not in refused.stderr, refused
    assert "promised transaction.version 2 to their clients, and this program has 1" in refused.stderr
    checked_store(store)


def final_level_in(store: Path) -> int:
    with open_store(load_node_settings(store)) as opened:
        return final_level(opened.metadata.refresh(), "transaction.version")


def _each_gets_more(sending: Sending) -> None:
    """Waits until records of every partition are acknowledged, beyond those that were."""
    before = sending.acked_counts()
    until(lambda: all(count > before[each] + 10 for each, count in sending.acked_counts().items()), "answers")


def _leaders(opened: object) -> list[int]:
    image = opened.metadata.refresh()  # type: ignore[attr-defined]
    return [each.leader for each in image.topics[image.topic_ids["t"]].partitions]
