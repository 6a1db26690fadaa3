"""``siltstone serve --nodes N``: a cluster on one machine that is started and stopped as one process."""

import re
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import load_node_settings
from support.broker.broker_process import SILTSTONE, BrokerProcess, checked_store
from support.broker.cluster_clients import SECONDS_MAX, Sending, made_topic, read_all, until

THREE = ("--nodes", "3", "-v")


def bootstrap_of(nodes: BrokerProcess) -> str:
    return until(lambda: re.search(r"bootstrap.servers=(\S+)", nodes.log), "three nodes that are ready")[1]


def process_ids(nodes: BrokerProcess) -> dict[int, int]:
    newest = dict(re.findall(r"node (\d+) runs in process (\d+)", nodes.log))
    return {int(node_id): int(number) for node_id, number in newest.items()}


def node_processes(nodes: BrokerProcess) -> dict[int, psutil.Process]:
    return {node_id: psutil.Process(number) for node_id, number in process_ids(nodes).items()}


def leaders_in(folder: Path) -> list[int]:
    with open_store(load_node_settings(folder)) as store:
        return [
            partition.leader
            for topic in store.metadata.image.topics.values()
            for partition in topic.partitions
        ]


def has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.clients
@pytest.mark.xdist_group("cluster")
def test_three_nodes_are_one_cluster_and_one_that_is_killed_is_started_again(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "store", options=THREE) as nodes:
        bootstrap = bootstrap_of(nodes)
        before = node_processes(nodes)
        assert {each.ppid() for each in before.values()} == {nodes.process_id}
        admin = made_topic(bootstrap, "t", 6)
        seen = admin.list_topics("t", timeout=SECONDS_MAX)
        assert sorted(f"{each.host}:{each.port}" for each in seen.brokers.values()) == sorted(
            bootstrap.split(",")
        )
        assert sorted(each.leader for each in seen.topics["t"].partitions.values()) == [0, 0, 1, 1, 2, 2]
        sending = Sending(bootstrap, "t", 6)
        until(lambda: sending.answered > 100, "answers")
        before[1].kill()
        until(lambda: "node 1 was ended by signal 9; it is started again in 1.0 s" in nodes.log, "the line")
        until(lambda: process_ids(nodes)[1] != before[1].pid, "another process")
        answered = sending.acked_counts()
        until(
            lambda: all(sending.acked_counts()[each] > answered[each] for each in answered), "answers of all"
        )
        sending.stop()
        for partition, acked in sending.acked.items():
            assert read_all(bootstrap, "t", partition, len(acked)) == acked
        after = node_processes(nodes)
        led = leaders_in(tmp_path / "store")
        assert nodes.stop() == 0, nodes.log
        assert leaders_in(tmp_path / "store") == led, "nobody takes what another one leads when all end"
        assert all(map(has_ended, after.values()))
        assert nodes.log.count("press again to exit now") == 1
        assert "Traceback" not in nodes.log
    checked_store(tmp_path / "store")


def test_the_nodes_end_when_the_process_that_started_them_is_killed(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "store", options=THREE) as nodes:
        bootstrap_of(nodes)
        processes = node_processes(nodes)
        nodes.kill()
        until(lambda: all(map(has_ended, processes.values())), "the end of all")
    checked_store(tmp_path / "store")


def test_a_second_signal_ends_all_nodes_at_once(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "store", options=THREE) as nodes:
        bootstrap_of(nodes)
        processes = node_processes(nodes)
        for process in processes.values():
            process.suspend()  # so that the first signal alone ends none
        nodes.signal(signal.SIGINT)
        until(lambda: "press again" in nodes.log, "the line")
        for process in processes.values():
            process.resume()
        nodes.signal(signal.SIGINT)
        assert nodes.exit_status(SECONDS_MAX) in (0, 3), nodes.log
        assert all(map(has_ended, processes.values()))
    checked_store(tmp_path / "store")


def port_after_a_free_one() -> socket.socket:
    """A listening socket. Its port and the one before it are below those that the system gives to connections, which
    might take the other one at any moment."""
    for port in range(20_001, 32_000, 2):
        free, taken = socket.socket(), socket.socket()
        with free, suppress(OSError):
            free.bind(("127.0.0.1", port - 1))
            taken.bind(("127.0.0.1", port))
            taken.listen()
            return taken
        taken.close()
    raise AssertionError("no two ports in a row are free")


def test_none_runs_when_one_cannot_listen_and_its_reason_is_shown(tmp_path: Path) -> None:
    with port_after_a_free_one() as taken:
        port = taken.getsockname()[1]
        command = [
            SILTSTONE,
            "serve",
            "--store",
            tmp_path / "store",
            "--nodes",
            "2",
            "--listener",
            f"127.0.0.1:{port - 1}",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert done.returncode == 2
    assert f"127.0.0.1:{port}" in done.stderr
    assert "node 1 did not start, so none runs: all 2 are stopped" in done.stderr
    assert "Traceback" not in done.stderr
    checked_store(tmp_path / "store")
