"""Disasters of a whole cluster while clients write, with real processes: metadata or logs lost their newest part, a
maintenance machine has a wrong clock, a broker is unregistered and comes back, PostgreSQL is out when a broker starts.
Nothing acknowledged is lost, nothing is there twice, order holds (rules 1, 13 and 15).

``KILLS_SEED=7 pytest tests/crash/test_cluster_disasters.py -k wrong-clock`` plays a disaster again.
"""

import random
from collections.abc import Iterator

import pytest

from support.broker.broker_history import faults_in
from support.broker.disasters import DISASTERS, OF_LOGS_IN_FILES, DisasterTrial
from support.broker.server_cluster import ServerCluster
from support.engine.s3_server import S3Server
from support.metadata.postgres_server import PostgresServer
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried

CLIENT = "kafka-python"
"""aiokafka gives a batch up after 40 s, and then cannot continue; some of these disasters last longer."""

pytestmark = [
    pytest.mark.crash,
    pytest.mark.nightly,
    pytest.mark.s3,
    pytest.mark.postgres,
    pytest.mark.clients,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("cluster-disasters"),
]


@pytest.fixture(scope="module", params=["bucket:0", "file"])
def cluster(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: PostgresServer,
    s3_server: S3Server,
) -> Iterator[ServerCluster]:
    folder = tmp_path_factory.mktemp("disasters")
    with ServerCluster(folder, postgres_server, s3_server, request.param) as opened:
        yield opened
        opened.assert_well_ended()


def live_through(cluster: ServerCluster, disaster: str, record_tried: RecordTried) -> None:
    chance = random.Random(f"{seed_of_this_run('KILLS_SEED')} {disaster}")
    trial = DisasterTrial(cluster, disaster, chance, CLIENT)
    log = trial.live_through()
    faults = faults_in(trial.history, log)
    assert not faults, faults[:10]
    assert trial.history.seen and trial.history.committed
    record_tried("disasters of a cluster", 1)


@pytest.mark.parametrize("disaster", DISASTERS)
def test_a_disaster_loses_and_doubles_nothing(
    cluster: ServerCluster, disaster: str, record_tried: RecordTried
) -> None:
    live_through(cluster, disaster, record_tried)


@pytest.mark.parametrize("cluster", ["file"], indirect=True)
def test_rule_13_logs_that_lost_their_newest_files_are_refused(
    cluster: ServerCluster, record_tried: RecordTried
) -> None:
    live_through(cluster, OF_LOGS_IN_FILES, record_tried)
