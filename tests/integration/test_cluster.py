"""Two and three real processes on one store are a Kafka cluster for a real client. docs/scenarios.md has the scenarios
N… and M…."""

import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from siltstone.broker.groups.groups import partition_of_group
from support.broker.broker_history import Actor, History, faults_in, read_log
from support.broker.broker_process import SILTSTONE, BrokerProcess, checked_store
from support.broker.cluster_clients import SECONDS_MAX, Metronome, Sending, made_topic, read_all, until
from support.broker.cluster_processes import ClusterProcesses
from support.broker.kill_matrix import writing_with
from support.kafka.numbered_writer import clients_of_a_night
from support.metadata.postgres_server import PostgresServer
from support.processes.tried import RecordTried


def records(consumer: Consumer) -> list[Message]:
    """Returns messages without the errors that the client returns beside them, as from a node that does not know a new
    topic yet."""
    return [message for message in consumer.consume(100, 0.2) if message.error() is None]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(tmp_path_factory.mktemp("cluster") / "store", 2) as cluster:
        yield cluster
        for node in cluster.nodes.values():
            assert node.stop() == 0
            assert "Traceback" not in node.log
    checked_store(cluster.folder)


@pytest.mark.clients
@pytest.mark.xdist_group("cluster")
class TestPair:
    def test_n01_a_client_sees_both_nodes_and_leaders_on_each(self, pair: ClusterProcesses) -> None:
        for node_id in (0, 1):
            admin = made_topic(pair.address(node_id), f"made-at-{node_id}", 4)
            seen = admin.list_topics(f"made-at-{node_id}", timeout=SECONDS_MAX)
            assert {f"{each.host}:{each.port}" for each in seen.brokers.values()} == {
                pair.address(0),
                pair.address(1),
            }
            led = [each.leader for each in seen.topics[f"made-at-{node_id}"].partitions.values()]
            assert sorted(led) == [0, 0, 1, 1]
        assert len({node.wal_location for node in pair.image.nodes.values()}) == 2

    def test_m01_what_is_sent_during_moves_is_stored_once_and_in_order(self, pair: ClusterProcesses) -> None:
        made_topic(pair.address(1), "moved", 2)
        sending = Sending(pair.address(0), "moved", 2)
        until(lambda: sending.answered > 100, "answers")
        leader, answered = pair.leaders("moved")[0], sending.answered
        command = [
            str(SILTSTONE),
            "topics",
            "move",
            "moved:0",
            "--to",
            str(1 - leader),
            "-b",
            pair.address(0),
        ]
        moved = subprocess.run(command, capture_output=True, text=True, check=False)
        assert moved.returncode == 0, moved.stderr
        assert pair.leaders("moved")[0] == 1 - leader
        until(lambda: sending.answered > answered + 100, "answers after the move")
        for partition in (0, 1, 0):
            answered = sending.answered
            pair.move("moved", partition)
            until(lambda before=answered: sending.answered > before + 100, "answers after the move")
        sending.stop()
        for partition, acked in sending.acked.items():
            assert read_all(pair.address(1), "moved", partition, len(acked)) == acked
            assert list(acked.values()) == sorted(acked.values())

    def test_m07_a_group_goes_on_when_its_coordinator_moves(self, pair: ClusterProcesses) -> None:
        made_topic(pair.bootstrap, "for-a-group", 1)
        sending = Sending(pair.bootstrap, "for-a-group", 1)
        rebalances: list[int] = []
        consumer = Consumer({
            "bootstrap.servers": pair.bootstrap, "group.id": "goes-on", "auto.offset.reset": "earliest", "log_level": 0,
        })  # fmt: skip
        consumer.subscribe(["for-a-group"], on_assign=lambda _, assigned: rebalances.append(len(assigned)))
        until(lambda: records(consumer), "records")
        consumer.commit(asynchronous=False)
        count = len(pair.leaders("__consumer_offsets"))
        pair.move("__consumer_offsets", partition_of_group("goes-on", count))
        read = until(lambda: records(consumer), "records after the move")

        def committed() -> Any:
            try:
                return consumer.commit(message=read[-1], asynchronous=False)
            except KafkaException:  # the client looks for the coordinator
                return None

        until(committed, "a commit at the new coordinator")
        (found,) = consumer.committed([TopicPartition("for-a-group", 0)], timeout=SECONDS_MAX)
        assert found.offset == read[-1].offset() + 1
        assert rebalances == [1]
        consumer.close()
        sending.stop()

    def test_n16_a_topic_is_deleted_at_the_node_that_does_not_lead_it(self, pair: ClusterProcesses) -> None:
        admin = made_topic(pair.address(0), "deleted", 2)
        sending = Sending(pair.bootstrap, "deleted", 2)
        until(lambda: sending.answered > 10, "answers")
        sending.stop()
        admin.delete_topics(["deleted"])["deleted"].result(SECONDS_MAX)
        until(lambda: "deleted" not in pair.image.topic_ids, "the deletion")
        other = AdminClient({"bootstrap.servers": pair.address(1), "allow.auto.create.topics": False})
        until(
            lambda: "deleted" not in other.list_topics(timeout=SECONDS_MAX).topics, "the other node's answer"
        )


HANDED_OVER = re.compile(r"(\d+) partitions were handed over")
WAITS_IN_A_HAND_OVER = 10
"""What a partition's pause is made of: waits of threads of two brokers and a client for their turn, some ten in a row.
Each can be as late as the metronome was, on a machine that does other work."""


@pytest.mark.nightly
@pytest.mark.clients
def test_n12_a_rolling_restart_costs_each_partition_less_than_a_second_and_a_half(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    """What the brokers promise is that each hands its partitions over before it ends; without that a pause lasts until
    another one has placed them, 1.2 to 1.7 s. The time is what that buys, on a machine that has it to give."""
    options = ("--log-level", "info")
    with ClusterProcesses(tmp_path / "store", 3, options=options) as cluster, Metronome() as metronome:
        made_topic(cluster.bootstrap, "t", 6)
        sending = Sending(cluster.bootstrap, "t", 6)
        until(lambda: sending.answered > 600, "answers")
        for node_id in range(3):
            before, led = handed_over(cluster.nodes[node_id]), cluster.leaders("t").count(node_id)
            assert cluster.nodes[node_id].stop(SECONDS_MAX) == 0
            assert handed_over(cluster.nodes[node_id]) == before + led
            assert node_id not in cluster.leaders("t"), "nothing was left to place"
            cluster.start(node_id)
            answered = sending.answered
            until(lambda before=answered: sending.answered > before + 600, "answers")
        sending.stop()
        for partition, acked in sending.acked.items():
            assert read_all(cluster.bootstrap, "t", partition, len(acked)) == acked
        record_tried("restarts", 3)
        assert max(sending.pauses_ms.values()) < 1_500 + WAITS_IN_A_HAND_OVER * metronome.late_ms


def handed_over(node: BrokerProcess) -> int:
    """How many partitions all nodes have handed over until now; they share a log."""
    return sum(map(int, HANDED_OVER.findall(node.log)))


@pytest.mark.nightly
@pytest.mark.clients
@pytest.mark.timeout(900)
def test_n12_a_rolling_restart_is_an_error_to_no_client(tmp_path: Path, record_tried: RecordTried) -> None:
    """Each client writes in a process of its own, idempotently; none gets an error, and no record is lost, doubled or
    out of order."""
    history, clients = History(), clients_of_a_night()
    with ClusterProcesses(tmp_path / "store", 3) as cluster:
        made_topic(cluster.bootstrap, "t", 6)
        actors = [
            Actor(history, writing_with(client, cluster.bootstrap, "t", f"w{number}"))
            for number, client in enumerate(clients)
        ]

        def counts() -> Counter[str]:
            with history.lock:
                return Counter(value.split()[0] for value in history.acknowledged.values())

        def all_go_on() -> None:
            before = counts()
            until(
                lambda: (
                    history.failures
                    or all(
                        counts()[f"w{number}"] > before[f"w{number}"] + 30 for number in range(len(clients))
                    )
                ),
                f"answers to each of {clients} after {before}",
            )

        try:
            all_go_on()
            for node_id in range(3):
                assert cluster.nodes[node_id].stop(SECONDS_MAX) == 0
                until(lambda n=node_id: n not in cluster.leaders("t"), "other leaders")
                cluster.start(node_id)
                all_go_on()
        finally:
            for actor in actors:
                actor.finish()
            for actor in actors:
                actor.join()
        assert faults_in(history, read_log(cluster.bootstrap, "t", 6)) == []
        record_tried("restarts", 3)
        record_tried("clients", len(clients))


@pytest.mark.nightly
@pytest.mark.clients
def test_n05_a_node_that_was_stopped_for_8_s_leads_again_and_has_all(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    with ClusterProcesses(tmp_path / "store", 2) as cluster:
        made_topic(cluster.bootstrap, "t", 2)
        sending = Sending(cluster.bootstrap, "t", 2)
        until(lambda: sending.answered > 100, "answers")
        leaders = cluster.leaders("t")
        cluster.nodes[1].signal(signal.SIGSTOP)
        until(lambda: cluster.image.nodes[1].is_fenced, "the fence")
        time.sleep(1)
        cluster.nodes[1].signal(signal.SIGCONT)
        until(lambda: not cluster.image.nodes[1].is_fenced, "the resumption")
        answered = sending.answered
        until(lambda: sending.answered > answered + 100, "answers")
        sending.stop()
        assert cluster.leaders("t") == leaders
        for partition, acked in sending.acked.items():
            assert read_all(cluster.bootstrap, "t", partition, len(acked)) == acked
        record_tried("stops", 1)


@pytest.mark.nightly
@pytest.mark.clients
def test_m08_a_node_that_is_killed_during_moves_comes_back_with_all(
    tmp_path: Path, record_tried: RecordTried
) -> None:
    """A node is killed while it hands partitions over. When it is back it leads the partitions again that it had not
    handed over."""
    with ClusterProcesses(tmp_path / "store", 2) as cluster:
        made_topic(cluster.bootstrap, "t", 4)
        sending = Sending(cluster.bootstrap, "t", 4)
        until(lambda: sending.answered > 200, "answers")
        for round_ in range(4):
            leaders = cluster.leaders("t")
            command = [
                str(SILTSTONE),
                "topics",
                "move",
                "t",
                "--to",
                str(round_ % 2),
                "-b",
                cluster.bootstrap,
            ]
            moving = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.6 + 0.15 * round_)
            victim = 1 - round_ % 2
            cluster.nodes[victim].kill()
            cluster.start(victim)
            moving.wait(SECONDS_MAX * 2)
            answered = dict(sending.pauses_ms), sending.answered
            until(lambda before=answered[1]: sending.answered > before + 200, f"answers after {leaders}")
        sending.stop()
        for partition, acked in sending.acked.items():
            assert read_all(cluster.bootstrap, "t", partition, len(acked)) == acked
        record_tried("kills", 4)


@pytest.mark.nightly
def test_n02_a_second_process_with_the_same_id_is_refused(tmp_path: Path, record_tried: RecordTried) -> None:
    folder = tmp_path / "store"
    with ClusterProcesses(folder, 1) as cluster:
        second = BrokerProcess(folder, {"wal_folder": "wal/elsewhere"}, options=("--node-id", "0"))
        refused = subprocess.run(
            second.command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
        )
        assert refused.returncode == 2
        assert "another process runs as node 0" in refused.stderr
        assert cluster.image.nodes[0].node_epoch == 1
        record_tried("refusals", 1)


@pytest.mark.nightly
@pytest.mark.clients
@pytest.mark.postgres
def test_p01_nodes_share_a_store_whose_metadata_are_in_postgresql(
    tmp_path: Path, postgres_server: PostgresServer, record_tried: RecordTried
) -> None:
    """A partition is moved, a node is killed, fenced by the other one's look at the board, and comes back."""
    metadata = {"metadata": postgres_server.url(postgres_server.new_schema())}
    with ClusterProcesses(tmp_path / "store", 2, metadata) as cluster:
        made_topic(cluster.bootstrap, "t", 2)
        sending = Sending(cluster.bootstrap, "t", 2)
        until(lambda: sending.answered > 100, "answers")
        for partition in (0, 1):
            cluster.move("t", partition)
        cluster.nodes[1].kill()
        until(lambda: cluster.image.nodes[1].is_fenced, "the fence")
        cluster.start(1)
        answered = sending.answered
        until(lambda: sending.answered > answered + 100, "answers")
        sending.stop()
        for partition, acked in sending.acked.items():
            assert read_all(cluster.bootstrap, "t", partition, len(acked)) == acked
        record_tried("kills", 1)
