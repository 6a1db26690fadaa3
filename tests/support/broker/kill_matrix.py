"""Defines the cells of the kill matrix, each of which says which process is disturbed, how, and during which work, and
runs a cell on a cluster."""

import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic

from support.broker.broker_history import (
    Actor,
    History,
    Log,
    Place,
    consuming,
    faults_in,
    producing,
    read_log,
)
from support.broker.cluster_clients import until
from support.broker.server_cluster import NODES, ServerCluster, all_cut

VICTIMS = ("leader", "target", "recoverer", "metadata", "bucket")
HURTS = ("killed", "stopped-3-s", "stopped-20-s", "cut-off")
ACTIVITIES = ("idle", "produce", "move", "drain", "failover", "rebalance")
PARTITIONS, WRITERS, MEMBERS, PER_SECOND = 4, 3, 2, 50
CUT_OFF_SECONDS = 9
"""The time of a cut, which is longer than a suspicion: a broker that is cut off is failed over while clients still
reach it."""

STOPPED_SECONDS = {"stopped-3-s": 3, "stopped-20-s": 20}

GO_ON_SECONDS_MAX = 240
"""The time for a failover and a start of brokers that share a core with twenty other processes."""

CALM_RECORDS = 60
"""So many records are acknowledged before anything happens, and after everything has."""


class Cell(NamedTuple):
    victim: str
    hurt: str
    activity: str

    @property
    def id(self) -> str:
        return "-".join(self)


CELLS = tuple(itertools.starmap(Cell, itertools.product(VICTIMS, HURTS, ACTIVITIES)))


class Trial:
    """A cell of the matrix. ``client`` writes beside the others: see ``support.kafka.numbered_writer``."""

    def __init__(self, cluster: ServerCluster, cell: Cell, chance: random.Random, client: str) -> None:
        self.cluster, self.cell, self.chance, self._client = cluster, cell, chance, client
        self.topic = f"{cell.id}-{chance.randrange(10**6)}"
        self.history = History()
        self._dead: set[int] = set()

    def live_through(self) -> Log:
        """Plays the cell. Raises AssertionError when the clients do not continue, or the brokers do not come back."""
        cluster = self.cluster
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(self.topic, PARTITIONS, 1)])[self.topic].result(60)
        self.leader = cluster.leaders(self.topic)[0]
        self.target = self.chance.choice([n for n in NODES if n != self.leader])
        clients = Clients(cluster.bootstrap, self.topic, self.history, self._client)
        try:
            clients.write()
            self._more_is_acknowledged(clients.writing, "before")
            if self.cell.activity == "idle":
                clients.stop_writing()
            with self._under_way(clients):
                self._hurt()
            self._start_the_dead()
            cluster.wait_until_whole([self.topic])
            if self.cell.activity == "idle":
                clients.write()
            self._more_is_acknowledged(clients.writing, "after")
            clients.stop_writing()
            self._all_is_seen()
        finally:
            clients.stop()
        return read_log(cluster.bootstrap, self.topic, PARTITIONS, group=self.topic)

    def _more_is_acknowledged(self, writers: list[str], when: str) -> None:
        """Waits until each writer has got further acknowledgements: they write to different partitions."""

        def counts() -> dict[str, int]:
            with self.history.lock:
                written = Counter(value.split()[0] for value in self.history.acknowledged.values())
            return {name: written[name] for name in writers}

        before = counts()
        until(
            lambda: all(count >= before[name] + CALM_RECORDS // WRITERS for name, count in counts().items()),
            f"answers to each writer {when}: {self.cell.id}",
            GO_ON_SECONDS_MAX,
        )

    def _all_is_seen(self) -> None:
        """Waits until the group has seen everything, however often it was balanced: no consumer is stuck."""

        def unseen() -> list[Place]:
            with self.history.lock:
                return sorted(self.history.acknowledged.keys() - {place for place, _ in self.history.seen})

        try:
            until(lambda: not unseen(), f"everything at the group: {self.cell.id}", GO_ON_SECONDS_MAX)
        except AssertionError as late:
            late.add_note(self._words_of(unseen()))
            raise

    def _words_of(self, unseen: list[Place]) -> str:
        log = read_log(self.cluster.bootstrap, self.topic, PARTITIONS, group=self.topic)
        return "\n".join([
            f"unseen: {len(unseen)}, from {unseen[:3]} to {unseen[-3:]}, leaders {self.cluster.leaders(self.topic)}",
            f"in the log: {Counter(partition for partition, _ in log.records)}, committed: {log.committed}",
            f"as clients were told: committed {self.history.committed}, failures {self.history.failures}",
            *faults_in(self.history, log)[:10],
            *(node.process.log[-2_000:] for node in self.cluster.nodes),
        ])  # fmt: skip

    # -- what continues ------------------------------------------------------------------------------------

    @contextmanager
    def _under_way(self, clients: "Clients") -> Iterator[None]:
        """The activity has begun, and may not have ended, when this is entered. Afterwards it is undone."""
        match self.cell.activity:
            case "move":
                self.cluster.move(self.topic, 0, self.target)
            case "drain":
                self.cluster.drain(self.leader)
            case "failover":
                self._kill(self.leader)
                self.leader, self.target = self.target, 3 - self.leader - self.target
            case "rebalance":
                clients.another_member()
        time.sleep(self.chance.uniform(0, 0.3))
        yield
        if self.cell.activity == "drain":
            self._start_the_dead()
            self.cluster.wait_until_whole([])
            for node_id in NODES:
                self.cluster.drain(node_id, is_draining=False)

    # -- what happens ------------------------------------------------------------------------------------

    def _hurt(self) -> None:
        """Returns when the victim is healed, except that a broker that was killed may still be dead."""
        if self.cell.victim in ("metadata", "bucket"):
            self._hurt_server()
            return
        node_id = self._node()
        node = self.cluster.nodes[node_id]
        match self.cell.hurt:
            case "killed":
                self._kill(node_id)
                time.sleep(self.chance.choice((0, 1, CUT_OFF_SECONDS)))
            case "cut-off":
                with all_cut([node.to_metadata, node.to_bucket]):
                    time.sleep(CUT_OFF_SECONDS)
            case stopped:
                with node.stopped():
                    time.sleep(STOPPED_SECONDS[stopped])

    def _hurt_server(self) -> None:
        is_metadata = self.cell.victim == "metadata"
        server = self.cluster.postgres if is_metadata else self.cluster.s3
        match self.cell.hurt:
            case "killed":
                server.kill()
                time.sleep(self.chance.choice((0, 1, CUT_OFF_SECONDS)))
                server.start()
            case "cut-off":
                nodes = self.cluster.nodes
                with all_cut([each.to_metadata if is_metadata else each.to_bucket for each in nodes]):
                    time.sleep(CUT_OFF_SECONDS)
            case stopped:
                with server.silent():
                    time.sleep(STOPPED_SECONDS[stopped])

    def _node(self) -> int:
        if self.cell.victim == "leader":
            return self.leader
        if self.cell.victim == "target":
            return self.target
        if not self._dead:
            self._kill(self.leader)
        (dead,) = self._dead
        return until(
            lambda: self._recoverer_of(dead), f"a claim of the log of broker {dead}", GO_ON_SECONDS_MAX
        )[0]

    def _recoverer_of(self, dead: int) -> list[int]:
        """Returns the broker that recovers the log of the dead one now or, if that is done already, the one that
        did."""
        node = self.cluster.image.nodes[dead]
        if node.claimed_by in NODES:
            return [node.claimed_by]
        return [n for n in self.cluster.leaders(self.topic) if n != dead] if node.failover else []

    def _kill(self, node_id: int) -> None:
        self.cluster.nodes[node_id].process.kill()
        self._dead.add(node_id)

    def _start_the_dead(self) -> None:
        while self._dead:
            self.cluster.nodes[self._dead.pop()].start()


class Clients:
    """Idempotent writers, one of them with the client ``other``, and members of a group that commit what they have
    seen."""

    def __init__(self, bootstrap: str, topic: str, history: History, other: str) -> None:
        self._bootstrap, self._topic, self._history, self._other = bootstrap, topic, history, other
        self._numbers = itertools.count()
        self._writers: list[Actor] = []
        self.writing: list[str] = []
        self._members: list[Actor] = []
        for _ in range(MEMBERS):
            self.another_member()

    def another_member(self) -> None:
        act = consuming(self._bootstrap, self._topic, group=self._topic)
        self._members.append(Actor(self._history, act))

    def write(self) -> None:
        numbers = [next(self._numbers) for _ in range(WRITERS)]
        self.writing = [f"w{n}" for n in numbers]
        acts = [producing(self._bootstrap, self._topic, n, PER_SECOND) for n in numbers[1:]]
        acts.append(writing_with(self._other, self._bootstrap, self._topic, self.writing[0]))
        self._writers = [Actor(self._history, act) for act in acts]

    def stop_writing(self) -> None:
        _ended(self._writers)
        self._writers = []

    def stop(self) -> None:
        self.stop_writing()
        _ended(self._members)


def _ended(actors: list[Actor]) -> None:
    for actor in actors:
        actor.finish()
    for actor in actors:
        actor.join()


def writing_with(client: str, bootstrap: str, topic: str, name: str) -> Callable[[Actor], None]:
    """Makes an actor like that of ``producing``, with a client in a process of its own."""
    module = ["-m", "support.kafka.numbered_writer", client, bootstrap, topic, name, str(PER_SECOND)]

    def act(actor: Actor) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        pipe = subprocess.PIPE
        with (
            tempfile.TemporaryFile("w+") as errors,
            subprocess.Popen(
                [sys.executable, *module], stdin=pipe, stdout=pipe, stderr=errors, text=True, env=environment
            ) as process,
        ):
            assert process.stdin is not None and process.stdout is not None
            threading.Thread(target=_close_when, args=(actor.finishing, process.stdin), daemon=True).start()
            for line in process.stdout:
                partition, offset, value = json.loads(line)
                with actor.history.lock:
                    actor.history.acknowledged[partition, offset] = value
            status = process.wait()
            errors.seek(0)
            assert status == 0, f"{client} ended with {status}: {errors.read()[-1000:]}"

    return act


def _close_when(finishing: threading.Event, stdin: IO[str]) -> None:
    finishing.wait()
    stdin.close()
