"""Disasters of a whole cluster, each during writes: metadata or logs that lost their newest part, a maintenance machine
with a wrong clock, a broker that is unregistered and comes back, PostgreSQL that is out when a broker starts."""

import random
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from psycopg import sql

from siltstone.metadata.commands import UnregisterNode
from siltstone.model.limits import DAY_MS
from support.broker.broker_history import Log, read_log
from support.broker.cluster_clients import until
from support.broker.kill_matrix import GO_ON_SECONDS_MAX, Cell, Trial
from support.broker.server_cluster import NODES, Node, ServerCluster
from support.kafka.raw_calls import metadata_request
from support.kafka.raw_kafka import Address, RawConnection
from support.processes.cli import run

ENDED_SECONDS_MAX = 120
OTHER_PARTITIONS = len(NODES)
"""Each broker leads one of them."""

OUT_SECONDS = 12
"""How long PostgreSQL is out while a broker starts."""

_VERSIONED = ("entries", "chunks", "snapshots")
"""The tables of the metadata log whose rows have a version."""


class DisasterTrial(Trial):
    """A trial of the kill matrix with another hurt, which is a method of this class."""

    def __init__(self, cluster: ServerCluster, disaster: str, chance: random.Random, client: str) -> None:
        super().__init__(cluster, Cell("cluster", disaster, "produce"), chance, client)
        self._other, self._last = f"{self.topic}-other", f"{self.topic}-last"
        self._written = 0

    def live_through(self) -> Log:
        log = super().live_through()
        if self._written:
            self._the_other_is_whole()
        return log

    def _hurt(self) -> None:
        disaster: Callable[[], None] = getattr(self, "_" + self.cell.hurt.replace("-", "_"))
        disaster()

    # -- what is lost --------------------------------------------------------------------------------------

    def _metadata_lost_its_last_entries(self) -> None:
        """As a standby that lagged, which is promoted after brokers and primary died together: any number of entries
        is missing. Each broker has acknowledged something since, so each is refused; the newest copy is accepted. A
        start whose proxy of the bucket has another address than the last one's adds an entry, refused or not."""
        versions = range(self.cluster.image.version, self._changes() - len(NODES))
        self._kill_all()
        lost = LostRows(self.cluster, self.chance.choice(versions))
        self._are_refused("Restore the newest copy")
        lost.put_back()

    def _logs_lost_their_last_files(self) -> None:
        """Of each broker, the newest log file, or all."""
        self._changes()
        self._kill_all()
        missing: dict[Path, bytes] = {}
        for node_id in NODES:
            files = sorted(self.cluster.nodes[node_id].folder.rglob("*.wal"))
            assert files, "the broker has its log in files"
            for path in files if self.chance.random() < 0.5 else files[-1:]:
                missing[path] = path.read_bytes()
                path.unlink()
        self._are_refused("is missing: restore the file")
        for path, content in missing.items():
            path.write_bytes(content)

    def _changes(self) -> int:
        """Makes entries of several kinds: a creation, a move, a configuration, openings. Then every broker acknowledges
        a record. Returns the version of the metadata that all of them had read by then."""
        admin = AdminClient({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(self._other, OTHER_PARTITIONS, 1)])[self._other].result(60)
        for node_id in NODES:
            self.cluster.move(self._other, node_id, node_id)
        self.cluster.move(self.topic, 0, self.target)
        words = ("topics", "configure", self.topic, "retention.ms=30d", "-b", self.cluster.bootstrap)
        assert run(*words).status == 0
        until(
            lambda: (
                self.cluster.leaders(self.topic)[0] == self.target
                and self.cluster.leaders(self._other) == [*NODES]
            ),
            "the moves of partitions", GO_ON_SECONDS_MAX,
        )  # fmt: skip
        self._write_to_the_other()
        admin.create_topics([NewTopic(self._last, 1, 1)])[self._last].result(60)
        version = self.cluster.image.version
        for node in self.cluster.nodes:
            until(lambda address=node.process.address: self._is_known_at(address), "news", GO_ON_SECONDS_MAX)
        self._write_to_the_other()
        return version

    def _is_known_at(self, address: Address) -> bool:
        """Returns whether the broker knows the topic that was created last."""
        with RawConnection(address) as connection:
            (topic,) = connection.ask(metadata_request(self._last), 12).topics
        return topic.error_code == 0

    def _write_to_the_other(self) -> None:
        """Writes a record to each partition of the topic that is made meanwhile."""
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "log_level": 0})
        for partition in range(OTHER_PARTITIONS):
            producer.produce(self._other, str(self._written), partition=partition)
        assert producer.flush(60) == 0
        self._written += 1

    def _the_other_is_whole(self) -> None:
        found = read_log(self.cluster.bootstrap, self._other, OTHER_PARTITIONS).records
        written = [str(number) for number in range(self._written)]
        for partition in range(OTHER_PARTITIONS):
            assert [value for place, value in sorted(found.items()) if place[0] == partition] == written

    def _kill_all(self) -> None:
        for node_id in NODES:
            self._kill(node_id)

    def _are_refused(self, words: str) -> None:
        """Starts all brokers at once, and waits until each has ended with the words."""
        starting = [Starting(node) for node in self.cluster.nodes]
        for each, node in zip(starting, self.cluster.nodes, strict=True):
            each.join(ENDED_SECONDS_MAX)
            assert not each.has_started, node.process.log[-2_000:]
            assert node.process.exit_status(ENDED_SECONDS_MAX) in (1, 2)
            refusal = node.process.log.splitlines()[-1]
            assert words in refusal, refusal

    # -- what is wrong -------------------------------------------------------------------------------------

    def _maintenance_with_a_wrong_clock(self) -> None:
        shift = self.cluster.folder / "shift"
        shift.write_text(str(self.chance.choice((-8, 8, 400)) * DAY_MS))
        program = [sys.executable, "-m", "support.faults.shifted_serve", str(shift)]
        words = ["maintain", "run", "--runner", "in-process", "--force", "--store", str(self.cluster.folder)]
        done = subprocess.run(
            [*program, *words], capture_output=True, text=True, check=False, env=_environment()
        )
        assert done.returncode == 1, done.stdout + done.stderr
        assert "no maintenance is run: the clock of this machine is" in done.stderr + done.stdout, done

    def _unregistered_and_registered_again(self) -> None:
        node = self.cluster.nodes[self.leader]
        self.cluster.drain(self.leader)
        until(lambda: self.leader not in self.cluster.leaders(self.topic), "the drain", GO_ON_SECONDS_MAX)
        assert node.process.stop(ENDED_SECONDS_MAX) == 0, node.process.log[-2_000:]
        self._unregister_when_fenced(self.leader)
        node.start()

    def _unregistered_while_it_was_stopped(self) -> None:
        node = self.cluster.nodes[self.leader]
        self.cluster.drain(self.leader)
        until(lambda: self.leader not in self.cluster.leaders(self.topic), "the drain", GO_ON_SECONDS_MAX)
        with node.stopped():
            self._unregister_when_fenced(self.leader)
        assert node.process.exit_status(ENDED_SECONDS_MAX) is not None, "it lives on, outside of the cluster"
        node.start()

    def _unregister_when_fenced(self, node_id: int) -> None:
        until(lambda: self.cluster.image.nodes[node_id].is_fenced, "the fence", GO_ON_SECONDS_MAX)
        until(
            lambda: not self.cluster.image.nodes[node_id].claimed_by >= 0, "the failover", GO_ON_SECONDS_MAX
        )
        self.cluster.observer.metadata.execute(UnregisterNode(node_id))

    def _postgresql_is_out_at_a_start(self) -> None:
        node = self.cluster.nodes[self.leader]
        assert node.process.stop(ENDED_SECONDS_MAX) is not None
        self.cluster.postgres.kill()
        starting = Starting(node)
        starting.join(OUT_SECONDS)
        assert starting.is_alive(), f"it did not wait: {node.process.log[-2_000:]}"
        self.cluster.postgres.start()
        starting.join(GO_ON_SECONDS_MAX)
        assert starting.has_started, node.process.log[-2_000:]


DISASTERS = tuple(
    name[1:].replace("_", "-")
    for name in (
        "_metadata_lost_its_last_entries", "_maintenance_with_a_wrong_clock", "_unregistered_and_registered_again",
        "_unregistered_while_it_was_stopped", "_postgresql_is_out_at_a_start",
    )
)  # fmt: skip
OF_LOGS_IN_FILES = "logs-lost-their-last-files"


class Starting(threading.Thread):
    """A broker that is being started. ``has_started``: clients can connect."""

    def __init__(self, node: Node) -> None:
        super().__init__(daemon=True)
        self._node = node
        self.has_started = False
        self.start()

    def run(self) -> None:
        with suppress(AssertionError):
            self._node.start()
            self.has_started = True


class LostRows:
    """What the metadata log had after a version, taken out of PostgreSQL."""

    def __init__(self, cluster: ServerCluster, version: int, *, is_empty: bool = False) -> None:
        self._cluster, self._version = cluster, version
        self._rows: dict[str, list[tuple]] = {}
        with cluster.postgres.connect() as connection:
            for table in _VERSIONED:
                name = sql.Identifier(cluster.schema, table)
                deletion = sql.SQL("DELETE FROM {} WHERE version > %s RETURNING *").format(name)
                self._rows[table] = connection.execute(deletion, [version]).fetchall()
        assert self._rows["entries"] or is_empty

    def put_back(self) -> None:
        """Instead of what was appended since."""
        LostRows(self._cluster, self._version, is_empty=True)
        with self._cluster.postgres.connect() as connection:
            for table, rows in self._rows.items():
                name = sql.Identifier(self._cluster.schema, table)
                for row in rows:
                    values = sql.SQL(", ").join(sql.Placeholder() * len(row))
                    connection.execute(sql.SQL("INSERT INTO {} VALUES ({})").format(name, values), row)


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
