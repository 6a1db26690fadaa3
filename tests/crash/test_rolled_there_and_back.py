"""The brokers of a cluster are replaced one after the other by this version, back by the one before, and by this one
again, while clients write; then the level of the store is raised, which ends the way back.

The version before is a commit of the history, the last one without levels. Without that history the test is skipped.
"""

import os
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import load_node_settings
from support.broker.broker_process import SILTSTONE, BrokerProcess, checked_store
from support.broker.cluster_clients import Sending, made_topic, read_all, until
from support.broker.older_source import BEFORE_LEVELS, older_program
from support.broker.server_cluster import Program
from support.processes.tried import RecordTried

PARTITIONS = 4
NODES = (0, 1, 2)

pytestmark = [pytest.mark.crash, pytest.mark.clients, pytest.mark.timeout(900)]


class Cluster:
    """Three brokers on one machine and one store, each at a port that it keeps."""

    def __init__(self, store: Path, older: Program, opened: ExitStack) -> None:
        self.store = store
        self.replaced = 0
        self._older = older
        self._opened = opened
        self._running = [self._start(node_id, is_older=True, port=0) for node_id in NODES]

    def _start(self, node_id: int, *, is_older: bool, port: int) -> BrokerProcess:
        program = self._older if is_older else Program((str(SILTSTONE),), os.environ)
        broker = BrokerProcess(
            self.store, port=port, options=("--node-id", str(node_id)), program=program.words,
            environment=program.environment, log_name=f"{node_id}",
        )  # fmt: skip
        return self._opened.enter_context(broker)

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.bootstrap_servers for broker in self._running)

    def replace_all(self, sending: Sending, *, is_older: bool) -> None:
        """Each broker ends cleanly, which hands its partitions over, and is started in the other version."""
        for node_id in NODES:
            port = self._running[node_id].address[1]
            assert self._running[node_id].stop() == 0, self._running[node_id].log[-2_000:]
            self._running[node_id] = self._start(node_id, is_older=is_older, port=port)
            self.replaced += 1
            before = sending.acked_counts()
            until(
                lambda before=before: all(
                    n > before[each] + 10 for each, n in sending.acked_counts().items()
                ),
                f"answers for every partition after node {node_id} was replaced",
            )

    def logs(self) -> str:
        return "".join(broker.log for broker in self._running)


def upgraded(store: Path) -> "subprocess.CompletedProcess[str]":
    command = [str(SILTSTONE), "upgrade", "--store", str(store)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.nightly(tried="brokers replaced by another version")
def test_op08_there_and_back_and_there_again_loses_and_doubles_nothing(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    older = older_program(BEFORE_LEVELS, tmp_path / "older")
    store = tmp_path / "store"
    with ExitStack() as opened:
        cluster = Cluster(store, older, opened)
        admin = made_topic(cluster.bootstrap, "t", PARTITIONS)
        assert admin is not None
        sending = Sending(cluster.bootstrap, "t", PARTITIONS)
        refused = upgraded(store)
        assert refused.returncode == 2 and "node 0 runs a version before levels" in refused.stderr, refused
        cluster.replace_all(sending, is_older=False)
        cluster.replace_all(sending, is_older=True)
        assert upgraded(store).returncode == 2, "an older program tells nothing in its life"
        cluster.replace_all(sending, is_older=False)
        assert upgraded(store).returncode == 0
        version = version_of(store)
        for words in (
            ["serve", "--node-id", "3", "--listener", "127.0.0.1:0"],
            ["maintain", "run", "--runner", "in-process"],
        ):
            said = subprocess.run(
                [*older.words, *words, "--store", str(store)],
                capture_output=True, text=True, check=False, env=older.environment, timeout=120,
            )  # fmt: skip
            assert said.returncode == 1 and "use the version that wrote it" in said.stderr, said
        assert 3 not in nodes_of(store) and version_of(store) >= version
        sending.stop()
        for partition in range(PARTITIONS):
            acked = sending.acked[partition]
            assert read_all(cluster.bootstrap, "t", partition, len(acked)) == acked
        assert "Traceback" not in cluster.logs()
    checked_store(store)
    record_tried("brokers replaced by another version", cluster.replaced)


def version_of(store: Path) -> int:
    with open_store(load_node_settings(store)) as opened:
        return opened.metadata.refresh().version


def nodes_of(store: Path) -> set[int]:
    with open_store(load_node_settings(store)) as opened:
        return set(opened.metadata.refresh().nodes)
