"""The kill matrix: brokers of a cluster, its PostgreSQL and its bucket are killed, stopped and cut off while much goes
on, with real processes and clients. Nothing acknowledged is lost, nothing is there twice, order holds, no committed
offset goes back, and everybody continues by themselves afterwards.

``make test`` plays one of the 120 cells, always the same; a night plays others beside, drawn by its date; all of
them are played by ``NIGHT=all pytest tests/crash/test_cluster_kills.py``, in three quarters of an hour.
``NIGHT=all KILLS_SEED=7 pytest tests/crash/test_cluster_kills.py -k leader-killed-move`` plays a cell again;
``KILLS_CLIENT=franz-go`` chooses the third writer.
"""

import os
import random
from collections.abc import Iterator

import pytest

from support.broker.broker_history import faults_in
from support.broker.kill_matrix import CELLS, Cell, Trial
from support.broker.server_cluster import ServerCluster
from support.engine.s3_server import S3Server
from support.kafka.numbered_writer import clients_of_a_night
from support.metadata.postgres_server import PostgresServer
from support.processes.night import drawn_tonight
from support.processes.seeds import seed_of_this_run
from support.processes.tried import RecordTried

DRAWN, DRAWN_TONIGHT = 1, 10
BY_DAY = random.Random(127).sample(CELLS, DRAWN)
"""The leader is killed while partitions move."""

BY_DAY_CLIENTS = ("aiokafka", "kafka-python")
"""The clients of the daytime. A JVM for each cell would take as long as all the others, and a program in Go has to
be built first."""

TONIGHT = drawn_tonight([cell for cell in CELLS if cell not in BY_DAY], DRAWN_TONIGHT)

pytestmark = [
    pytest.mark.crash,
    pytest.mark.s3,
    pytest.mark.postgres,
    pytest.mark.clients,
    pytest.mark.timeout(900),
    pytest.mark.xdist_group("cluster-kills"),
]


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, postgres_server: PostgresServer, s3_server: S3Server
) -> Iterator[ServerCluster]:
    """Starts one cluster for all cells, as a cluster has more than one bad day. What they leave in the store is
    checked in the end."""
    with ServerCluster(tmp_path_factory.mktemp("kills"), postgres_server, s3_server) as opened:
        yield opened
        opened.assert_well_ended()


@pytest.mark.parametrize(
    "cell",
    [
        *(pytest.param(cell, id=cell.id) for cell in BY_DAY),
        *(pytest.param(cell, id=cell.id, marks=pytest.mark.nightly) for cell in TONIGHT),
    ],
)
def test_a_cell_loses_and_doubles_nothing(
    cluster: ServerCluster, cell: Cell, record_tried: RecordTried
) -> None:
    chance = random.Random(f"{seed_of_this_run('KILLS_SEED')} {cell.id}")
    clients = BY_DAY_CLIENTS if cell in BY_DAY else clients_of_a_night()
    client = os.environ.get("KILLS_CLIENT") or chance.choice(clients)
    trial = Trial(cluster, cell, chance, client)
    log = trial.live_through()
    faults = faults_in(trial.history, log)
    assert not faults, faults[:10]
    assert trial.history.seen and trial.history.committed
    record_tried("faults in a cluster", 1)


def test_no_cell_is_there_twice() -> None:
    assert len(CELLS) == len(set(CELLS)) == 120
