"""Brokers of two versions side by side on PostgreSQL and a bucket, while clients write and read: a rolling upgrade, and
brokers that are killed in the middle of one. Nothing acknowledged is lost, nothing is there twice, order holds.

The older version is a commit of the history whose logs have an older format. Without that history the tests are
skipped.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.broker.broker_history import faults_in
from support.broker.cluster_clients import until
from support.broker.kill_matrix import GO_ON_SECONDS_MAX, Cell, Trial
from support.broker.older_source import BEFORE_VERSIONS_IN_LOGS, older_program
from support.broker.server_cluster import NODES, Program, ServerCluster
from support.engine.s3_server import S3Server
from support.metadata.postgres_server import PostgresServer
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried

CLIENT = "kafka-python"

pytestmark = [
    pytest.mark.crash,
    pytest.mark.nightly,
    pytest.mark.s3,
    pytest.mark.postgres,
    pytest.mark.clients,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("two-versions"),
]


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return older_program(BEFORE_VERSIONS_IN_LOGS, tmp_path_factory.mktemp("older") / "source")


@pytest.fixture(params=["bucket:0", "file"])
def cluster(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: PostgresServer,
    s3_server: S3Server,
    older: Program,
) -> Iterator[ServerCluster]:
    """A cluster of the older version."""
    folder = tmp_path_factory.mktemp("versions")
    made = ServerCluster(folder, postgres_server, s3_server, request.param)
    for node in made.nodes:
        node.program = older
    with made as opened:
        yield opened
        opened.assert_well_ended()


class Upgrade(Trial):
    """Replaces the brokers one after the other, while the clients of the kill matrix write and read."""

    def __init__(self, cluster: ServerCluster, how: str) -> None:
        chance = random.Random(f"{seed_of_this_run('KILLS_SEED')} {how}")
        super().__init__(cluster, Cell("upgrade", how, "produce"), chance, CLIENT)
        self.moves = self.kills = 0

    def _hurt(self) -> None:
        if self.cell.hurt == "drained":
            for node_id in self.chance.sample(NODES, len(NODES)):
                self._replace(node_id)
                self._move_there_and_back(node_id)
        else:
            first, second, last = self.chance.sample(NODES, len(NODES))
            self._replace(first)
            self._dies(first, is_failed_over=False)
            self._dies(last, is_failed_over=True)
            self._dies(first, is_failed_over=True)
            self._replace(second)

    def _replace(self, node_id: int) -> None:
        """As docs/operations.md says: drain, stop, install, start."""
        node = self.cluster.nodes[node_id]
        environment = Path(f"/proc/{node.process.process_id}/environ").read_text()
        assert node.program is not None and node.program.environment["PYTHONPATH"] in environment
        self.cluster.drain(node_id)
        until(lambda: node_id not in self.cluster.leaders(self.topic), "the drain", GO_ON_SECONDS_MAX)
        assert node.process.stop(120) == 0, node.process.log[-2_000:]
        node.program = None
        node.start()
        self.cluster.drain(node_id, is_draining=False)
        self.cluster.wait_until_whole([self.topic])

    def _move_there_and_back(self, node_id: int) -> None:
        """A partition goes to the broker, and from there to another one, which may be of the other version."""
        for target in (node_id, self.chance.choice([n for n in NODES if n != node_id])):
            self.cluster.move(self.topic, 0, target)
            until(
                lambda target=target: self.cluster.leaders(self.topic)[0] == target,
                "the move",
                GO_ON_SECONDS_MAX,
            )
            self.moves += 1

    def _dies(self, victim: int, *, is_failed_over: bool) -> None:
        """A broker that leads a partition is killed, and started again in the newer version: the broker that failed it
        over may have sealed its log in the newer format. If another one can read its log, that one gets the partition
        before; otherwise the partition waits for the victim."""
        self.cluster.move(self.topic, 0, victim)
        until(lambda: self.cluster.leaders(self.topic)[0] == victim, "the move", GO_ON_SECONDS_MAX)
        before = self._acknowledged_by_partition_0()
        until(
            lambda: self._acknowledged_by_partition_0() > before + 5, "records in its log", GO_ON_SECONDS_MAX
        )
        self._kill(victim)
        self.kills += 1
        self.cluster.nodes[victim].program = None
        if is_failed_over:
            until(lambda: self.cluster.leaders(self.topic)[0] != victim, "the failover", GO_ON_SECONDS_MAX)
        else:
            until(self._older_ones_have_tried, "a try that ends at the format", GO_ON_SECONDS_MAX)
            assert self.cluster.leaders(self.topic)[0] not in {*NODES} - {victim}, "nobody else leads it"
        self._start_the_dead()
        self.cluster.wait_until_whole([self.topic])

    def _acknowledged_by_partition_0(self) -> int:
        with self.history.lock:
            return sum(partition == 0 for partition, _ in self.history.acknowledged)

    def _older_ones_have_tried(self) -> bool:
        """In the words of that version."""
        return "version 2; this program reads 1" in self.cluster.logs


@pytest.mark.parametrize("how", ["drained", "killed"])
def test_a_rolling_upgrade_loses_and_doubles_nothing(
    cluster: ServerCluster, how: str, record_tried: RecordTried
) -> None:
    trial = Upgrade(cluster, how)
    log = trial.live_through()
    faults = faults_in(trial.history, log)
    assert not faults, faults[:10]
    assert trial.history.seen and trial.history.committed
    assert all(node.program is None for node in cluster.nodes)
    record_tried("rolling upgrades", 1)
    record_tried("moves between versions", trial.moves)
    record_tried("brokers killed beside another version", trial.kills)
