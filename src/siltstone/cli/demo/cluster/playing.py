"""The steps of ``siltstone demo --cluster``: three brokers on one store, a bucket that is away, a move, a kill, a
return, and a count."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from siltstone.cli.demo.cluster.counting import count_records
from siltstone.cli.demo.cluster.nodes import NodeProcess, running_nodes
from siltstone.cli.demo.cluster.report import PartitionPause, pauses_chart
from siltstone.cli.demo.cluster.second_bucket import (
    BUCKET_ID,
    FOLDER,
    add_second_bucket,
    objects_in,
    second_bucket_away,
)
from siltstone.cli.demo.cluster.sending import FlightSending
from siltstone.cli.demo.flights import FLIGHTS_TOPIC, Flight
from siltstone.cli.demo.kafka_client import SECONDS_MAX, GroupReading, create_topics
from siltstone.cli.demo.story import Story
from siltstone.cli.words import counted, seconds_words
from siltstone.maintenance.checking.check import check
from siltstone.metadata.commands import MovePartitions
from siltstone.metadata.image import MetadataImage
from siltstone.model.errors import Unavailable
from siltstone.offline.opening.store import Store, open_store
from siltstone.runtime.clock import Clock
from siltstone.server.settings.node import load_node_settings

NODES = 3
PARTITIONS = 6
KILLED = 1
"""This broker is killed; a partition of another one is moved to the third."""

STEADY_MS = 2_000
"""How long records flow undisturbed between two steps."""

LOOK_MS = 20
GROUP_MEMBERS = 2


class TookTooLong(Unavailable):
    """Something that takes seconds did not happen in a minute."""


class ClusterStage(msgspec.Struct, frozen=True):
    """What every step needs. ``felt`` is filled by the steps: partition → the longest pause so far."""

    story: Story
    clock: Clock
    folder: Path
    nodes: list[NodeProcess]
    store: Store
    sending: FlightSending
    felt: dict[int, PartitionPause]

    @property
    def image(self) -> MetadataImage:
        return self.store.metadata.refresh()

    @property
    def leaders(self) -> list[int]:
        image = self.image
        return [each.leader for each in image.topics[image.topic_ids[FLIGHTS_TOPIC]].partitions]

    def acknowledged_ends(self) -> dict[int, int]:
        """Partition → the offset after the last acknowledged record."""
        ends: dict[int, int] = {}
        for partition, offset in list(self.sending.answered.values()):
            ends[partition] = max(ends.get(partition, 0), offset + 1)
        return ends

    def has_committed(self, ends: dict[int, int]) -> bool:
        """Returns whether all these records are in objects."""
        image = self.image
        partitions = image.topics[image.topic_ids[FLIGHTS_TOPIC]].partitions
        return all(
            image.streams[partitions[partition].data_stream_id].end_offset >= end
            for partition, end in ends.items()
        )

    def until(self, holds: Callable[[], bool], what: str) -> float:
        """→ After how many seconds it held. Raises TookTooLong, and ClientFailed when a record was refused."""
        began_ms = self.clock.monotonic_ms()
        while not holds():
            self.sending.raise_failure()
            if self.clock.monotonic_ms() - began_ms > SECONDS_MAX * 1000:
                raise TookTooLong(
                    f"{what}: not within {SECONDS_MAX} s; {self.folder / 'nodes.log'} may say why"
                )
            self.clock.block_ms(LOOK_MS)
        return (self.clock.monotonic_ms() - began_ms) / 1000

    def flow_on(self) -> None:
        """Returns when every partition has acknowledged something sent from now on, and some seconds have passed."""
        moment_ms = self.clock.monotonic_ms()
        self.until(lambda: self.sending.answers_since(moment_ms), "acknowledgements of every partition")
        self.clock.block_ms(STEADY_MS)

    def note_pauses(self, what: dict[int, str]) -> dict[int, float]:
        """Notes the longest pauses since the last call. ``what``: partition → what happened to it meanwhile."""
        pauses_ms = self.sending.pauses_ms()
        for partition, pause_ms in pauses_ms.items():
            before = self.felt.get(partition)
            if before is None or pause_ms > before.pause_ms:
                self.felt[partition] = PartitionPause(partition, pause_ms, what.get(partition, ""))
        return pauses_ms


def play_cluster(folder: Path, story: Story, flights: list[Flight], clock: Clock) -> bool:
    """Returns whether everything was right. Raises NodeNotStarted, ClientFailed, TookTooLong."""
    story.title(
        "Siltstone demo: a cluster",
        "Three brokers share one store. A bucket is away, a broker is killed, and nothing is lost.",
    )
    story.step(f"Start {NODES} brokers on one store")
    with running_nodes(folder, NODES) as nodes:
        for node_id, node in enumerate(nodes):
            story.done(f"broker {node_id} listens on {node.address}")
        story.note(f"store: {folder}")
        story.note("their write-ahead logs are in the bucket, where each can read the others'")
        bootstrap = ",".join(node.address for node in nodes)
        create_topics(bootstrap, {FLIGHTS_TOPIC: PARTITIONS}, {FLIGHTS_TOPIC: {"retention.ms": "-1"}})
        sending = FlightSending(bootstrap, flights, PARTITIONS, clock)
        with open_store(load_node_settings(folder, environment={})) as store:
            stage = ClusterStage(story, clock, folder, nodes, store, sending, {})
            sending.start()
            try:
                _produce(stage)
                _take_a_bucket(stage)
                _move(stage)
                _come_back(stage, _kill(stage))
            except BaseException:  # Ctrl-C, too: what is not acknowledged would be waited for
                sending.abandon()
                raise
            sending.stop()
        is_right = _count(stage, bootstrap)
        story.step("What clients felt: the longest pause of each partition")
        story.show(pauses_chart([stage.felt[partition] for partition in sorted(stage.felt)]))
    return _check(stage) and is_right


def _produce(stage: ClusterStage) -> None:
    story = stage.story
    story.step(f"Produce flights to {PARTITIONS} partitions, until the end")
    stage.flow_on()
    stage.sending.pauses_ms()  # the first answer of each partition waits for its opening
    stage.clock.block_ms(STEADY_MS)
    pauses_ms = stage.note_pauses({})
    acknowledged = counted(len(stage.sending.answered), "record")
    story.done(f"each broker leads {PARTITIONS // NODES} partitions; {acknowledged} acknowledged so far")
    story.done(f"no partition was silent for longer than {_words(max(pauses_ms.values()))}")


def _take_a_bucket(stage: ClusterStage) -> None:
    story = stage.story
    story.step("Take one of two buckets away, and give it back")
    story.command(f"siltstone buckets add {stage.folder / FOLDER} --store {stage.folder}")
    story.command(f"siltstone buckets strategy round-robin --store {stage.folder}")
    add_second_bucket(stage.store, stage.folder)
    stage.until(lambda: objects_in(stage.image, BUCKET_ID) > 0, "an object in the second bucket")
    stage.note_pauses({})
    with second_bucket_away(stage.folder):
        acknowledged = stage.acknowledged_ends()
        with story.progress("until the brokers put its share into the other bucket"):
            seconds = stage.until(
                lambda: stage.has_committed(acknowledged), "objects in the bucket that is left"
            )
        stage.flow_on()
    pauses_ms = stage.note_pauses(dict.fromkeys(range(PARTITIONS), "a bucket was away"))
    story.done(
        f"the brokers use the other one alone after {seconds_words(seconds)}, and both again in half a minute"
    )
    story.done(
        f"no record waited for it: no partition was silent for longer than {_words(max(pauses_ms.values()))}"
    )


def _move(stage: ClusterStage) -> None:
    story = stage.story
    moved, leader = next((at, leader) for at, leader in enumerate(stage.leaders) if leader != KILLED)
    target = next(node_id for node_id in range(NODES) if node_id not in (KILLED, leader))
    story.step(f"Move partition {moved} to broker {target}, while records flow")
    story.command(
        f"siltstone topics move {FLIGHTS_TOPIC}:{moved} --to {target} --bootstrap {stage.nodes[target].address}"
    )
    seconds = _moved(stage, {moved: target})
    pause_ms = stage.note_pauses({moved: "moved"})[moved]
    story.done(f"broker {target} leads it after {seconds_words(seconds)}; not a byte was copied")
    story.done(f"its producer waited for {_words(pause_ms)}")


def _moved(stage: ClusterStage, targets: dict[int, int]) -> float:
    topic_id = stage.image.topic_ids[FLIGHTS_TOPIC]
    wanted = tuple((topic_id, partition, target) for partition, target in targets.items())
    stage.store.metadata.execute(MovePartitions(wanted))
    seconds = stage.until(
        lambda: all(stage.leaders[partition] == target for partition, target in targets.items()),
        f"the move of {counted(len(targets), 'partition')}",
    )
    stage.flow_on()
    return seconds


def _kill(stage: ClusterStage) -> list[int]:
    """→ The partitions that the killed broker led."""
    story = stage.story
    story.step(f"Kill broker {KILLED} with SIGKILL")
    led = [partition for partition, leader in enumerate(stage.leaders) if leader == KILLED]
    stage.nodes[KILLED].kill()
    story.done(
        f"it led the partitions {' and '.join(map(str, led))}, and had no time to upload its last records"
    )
    with story.progress("until the others notice and read its log"):
        seconds = stage.until(lambda: KILLED not in stage.leaders, "the failover")
        stage.flow_on()
    pauses_ms = stage.note_pauses(dict.fromkeys(led, "its broker was killed"))
    others_ms = max(pause_ms for partition, pause_ms in pauses_ms.items() if partition not in led)
    story.done(f"the others lead them after {seconds_words(seconds)}: five for being sure that it is gone")
    story.done(f"the other partitions continued; none was silent for longer than {_words(others_ms)}")
    return led


def _come_back(stage: ClusterStage, led: list[int]) -> None:
    story = stage.story
    story.step(f"Start broker {KILLED} again, and move its partitions back")
    began_ms = stage.clock.monotonic_ms()
    stage.nodes[KILLED].start()
    seconds = (stage.clock.monotonic_ms() - began_ms) / 1000
    story.done(f"it is ready after {seconds_words(seconds)}, and finds nothing to recover")
    _moved(stage, dict.fromkeys(led, KILLED))
    pauses_ms = stage.note_pauses(dict.fromkeys(led, "moved back"))
    slowest_ms = max(pauses_ms[partition] for partition in led)
    story.done(
        f"it leads {counted(len(led), 'partition')}, which were silent for {_words(slowest_ms)} at most"
    )


def _count(stage: ClusterStage, bootstrap: str) -> bool:
    story = stage.story
    story.step("Read everything back, and count")
    reading = GroupReading(bootstrap, {FLIGHTS_TOPIC: PARTITIONS}, stage.clock)
    with story.progress("reading") as on_progress:
        found = count_records(stage.sending.answered, reading.read(GROUP_MEMBERS, on_progress))
    tell = story.done if found.is_right else story.wrong
    tell(f"{counted(found.acknowledged, 'record')} acknowledged, {found.read:,} read")
    tell(f"{len(found.lost):,} lost, {len(found.doubled):,} doubled, {len(found.misplaced):,} out of order")
    for name, numbers in (
        ("lost", found.lost),
        ("doubled", found.doubled),
        ("out of order", found.misplaced),
    ):
        if numbers:
            story.wrong(f"{name}: {', '.join(map(str, numbers[:10]))}")
    return found.is_right


def _check(stage: ClusterStage) -> bool:
    with open_store(load_node_settings(stage.folder, environment={})) as store:
        report = check(store.context)
    tell = stage.story.done if report.is_clean else stage.story.wrong
    tell(f"siltstone check: {'clean' if report.is_clean else 'something is wrong'}")
    return report.is_clean


def _words(milliseconds: float) -> str:
    return seconds_words(milliseconds / 1000)
