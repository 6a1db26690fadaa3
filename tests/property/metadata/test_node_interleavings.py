"""Four nodes do whatever they may, late, twice and wrongly: live, fenced, failed over, moving partitions; a plain model
watches.

The model is slow and knows only what was acknowledged: for each partition who may open it, who has it open and under
which epochs, and which records lie in whose log only. After every command each partition has one leader and at most one
owner, epochs only rise, and no node has opened a partition whose last owner died with records in its log that nobody
has replayed (rules 1 and 7). A refusal changes nothing, and a repetition is answered as the first time.
"""

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.metadata.commands import (
    AddPartitions,
    ClaimFailover,
    CloseStream,
    Command,
    CommitUpload,
    CreateTopic,
    DeleteTopic,
    DrainNode,
    FenceNode,
    GiveUpPartitions,
    MovePartitions,
    OpenPartition,
    OpenStream,
    PartitionEnds,
    PlacePartitions,
    PrepareObjects,
    RegisterNode,
    ResumeNode,
    UnregisterNode,
)
from siltstone.metadata.entities import NO_NODE, NodeListener, PartitionMetadata, StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import Refusal
from siltstone.metadata.snapshot import decode_snapshot, encode_snapshot
from support.metadata.metadata_world import MetadataWorld, next_image
from support.values.examples import examples

NODES = range(4)
TOPICS = ["a" * 32, "b" * 32]
NOT_REPEATED = (AddPartitions, DeleteTopic, PrepareObjects, PlacePartitions)
"""Refused, or decided anew, when they are repeated."""


class Process:
    """One life of a node's process, as the process itself knows it: what it opened, and the ends in its log."""

    def __init__(self, node_id: int, node_epoch: int, incarnation: str) -> None:
        self.node_id, self.node_epoch, self.incarnation = node_id, node_epoch, incarnation
        self.opened: dict[tuple[str, int], int] = {}
        """Partition → leader epoch under which this process opened it."""
        self.logged: dict[int, int] = {}
        """Stream → end in the log of this process, which may be above the committed one."""
        self.held: dict[tuple[str, int], GiveUpPartitions] = {}
        """Partition → the command that gives it up, whose outcome this process does not know: until it does, it must
        acknowledge nothing, as the command may be carried out late."""


class Model:
    """What must be true, kept as plainly as possible."""

    def __init__(self) -> None:
        self.unreplayed: dict[int, int] = {}
        """Stream → end up to which records were acknowledged; they must be committed before another node opens it."""
        self.epochs: dict[int, int] = {}
        self.node_epochs: dict[int, int] = {}


class Walk:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.world = MetadataWorld()
        self.model = Model()
        self.lives = 0
        self.processes: dict[int, Process] = {}
        """The newest process of each node; older ones, zombies, are in ``zombies``."""
        self.zombies: list[Process] = []
        self.recovering: dict[int, int] = {}
        """Dead node → the node that registered for it."""
        self.late: list[CommitUpload] = []
        self.given_up: list[tuple[Process, GiveUpPartitions]] = []
        """Commands that were done: a process that lost the answer repeats them."""
        for node_id in NODES:
            self.start(node_id)
        self.do(CreateTopic(0, 1, "first", TOPICS[0], 3))

    # -- doing, and what holds of each command -----------------------------------------------------------

    def do(self, command: Command[Any]) -> Any:
        before = self.world.image
        answer = self.world.answer(command)
        if isinstance(answer, Refusal):
            assert self.world.image is before, "a refusal changes nothing"
            return answer
        self.check_opened(before, command)
        if not isinstance(command, NOT_REPEATED):
            assert self.world.answer(command) == answer, (
                f"{command} is answered otherwise when it is repeated"
            )
            assert self.world.written == 0
        return answer

    def check_opened(self, before: MetadataImage, command: Command[Any]) -> None:
        """Who opened something had the right to, by the image before."""
        for stream_id, stream in self.world.image.streams.items():
            old = before.streams.get(stream_id)
            if stream.state is not StreamState.OPENED or old is None or old.state is StreamState.OPENED:
                continue
            assert isinstance(command, OpenPartition | OpenStream)
            node = before.nodes[stream.owner]
            assert not node.is_fenced and not node.failover
            assert self.leader_of(before, stream_id) in (stream.owner, NO_NODE)
            acknowledged = self.model.unreplayed.get(stream_id, 0)
            assert stream.end_offset >= acknowledged, (
                f"stream {stream_id} was opened at {stream.end_offset}, with {acknowledged} acknowledged"
            )

    @staticmethod
    def leader_of(image: MetadataImage, stream_id: int) -> int:
        for topic in image.topics.values():
            for partition in topic.partitions:
                if stream_id in (partition.data_stream_id, partition.meta_stream_id):
                    return partition.leader
        return NO_NODE

    # -- choosing ----------------------------------------------------------------------------------------

    def node(self) -> int:
        return self.rng.choice(NODES)

    def process(self) -> Process:
        """A process that runs; now and then one that should not any more."""
        if self.zombies and self.rng.random() < 0.2:
            return self.rng.choice(self.zombies)
        return self.rng.choice(list(self.processes.values()))

    def partition(self) -> tuple[str, int]:
        topic_id = self.rng.choice(TOPICS)
        topic = self.world.image.topics.get(topic_id)
        return topic_id, self.rng.randrange(len(topic.partitions) if topic else 2)

    def metadata_of(self, partition: tuple[str, int]) -> PartitionMetadata | None:
        topic = self.world.image.topics.get(partition[0])
        return topic.partitions[partition[1]] if topic and partition[1] < len(topic.partitions) else None

    # -- nodes -------------------------------------------------------------------------------------------

    def start(self, node_id: int) -> None:
        """A process starts with the node's log and replays it. The streams that it has not closed then, it opens at the
        ends that its log has, as a broker does that starts while the bucket refuses its uploads."""
        self.lives += 1
        incarnation = f"life {self.lives}"
        listeners = (NodeListener("PLAINTEXT", f"host-{node_id}", 9092),)
        rack = self.rng.choice([None, "a", "b"])
        answer = self.do(RegisterNode(node_id, incarnation, "wal", listeners=listeners, rack=rack))
        if isinstance(answer, Refusal):
            assert node_id in self.world.image.nodes
            return
        if node_id in self.processes:
            self.zombies = [*self.zombies, self.processes[node_id]][-6:]
        process = self.processes[node_id] = Process(node_id, answer.node_epoch, incarnation)
        stream_ids = [stream.stream_id for stream in answer.opened_streams]
        self.replay(node_id, answer.node_epoch, stream_ids)
        process.logged.update({each: self.model.unreplayed.get(each, 0) for each in stream_ids})

    def restart(self) -> None:
        self.start(self.node())

    def replay(self, node_id: int, node_epoch: int, stream_ids: list[int]) -> None:
        """Uploads what was acknowledged and is not committed, then closes each stream; now and then it dies midway."""
        for stream_id in stream_ids:
            if self.rng.random() < 0.1:
                return
            stream = self.world.image.streams.get(stream_id)
            if stream is None or stream.state is not StreamState.OPENED:
                continue
            end = self.model.unreplayed.get(stream_id, 0)
            if end > stream.end_offset:
                self.commit(node_id, node_epoch, [(stream_id, stream.end_offset, end)])
                if self.world.image.streams[stream_id].end_offset < end:
                    return
            self.do(CloseStream(node_id, node_epoch, stream_id, stream.epoch))

    def fence(self) -> None:
        node_id = self.node()
        node = self.world.image.nodes.get(node_id)
        epoch = 1 if node is None else node.node_epoch - (self.rng.random() < 0.1)
        self.do(FenceNode(node_id, epoch))

    def resume(self) -> None:
        process = self.process()
        self.do(ResumeNode(process.node_id, process.node_epoch, process.incarnation))

    def drain(self) -> None:
        self.do(DrainNode(self.node(), self.rng.random() < 0.5))

    def unregister(self) -> None:
        node_id = self.node()
        image = self.world.image
        leads = any(each.leader == node_id for topic in image.topics.values() for each in topic.partitions)
        opened = any(
            each.owner == node_id and each.state is StreamState.OPENED for each in image.streams.values()
        )
        is_known = node_id in image.nodes
        answer = self.do(UnregisterNode(node_id))
        if is_known and not isinstance(answer, Refusal):
            assert not leads and not opened

    def claim(self) -> None:
        process = self.process()
        gives_back = self.rng.random() < 0.2
        self.do(ClaimFailover(process.node_id, process.node_epoch, self.node(), gives_back))

    def fail_over(self) -> None:
        """A node registers for a dead one, replays, closes, places and gives the claim back; any step may be left
        out."""
        process, dead = self.process(), self.node()
        if self.rng.random() < 0.7:
            self.do(ClaimFailover(process.node_id, process.node_epoch, dead))
        answer = self.do(RegisterNode(dead, process.incarnation, "", failover=True))
        if isinstance(answer, Refusal):
            return
        node = self.world.image.nodes[dead]
        assert (node.claimed_by, node.claimed_by_epoch) == (process.node_id, process.node_epoch)
        self.replay(dead, answer.node_epoch, [stream.stream_id for stream in answer.opened_streams])
        self.place()
        if self.rng.random() < 0.7:
            self.do(ClaimFailover(process.node_id, process.node_epoch, dead, gives_back=True))

    # -- partitions --------------------------------------------------------------------------------------

    def create(self) -> None:
        process, topic_id = self.process(), self.rng.choice(TOPICS)
        if topic_id in self.world.image.topics:
            if len(self.world.image.topics[topic_id].partitions) < 5:
                self.do(AddPartitions(process.node_id, process.node_epoch, topic_id, self.rng.randint(2, 5)))
        else:
            count = self.rng.randint(1, 3)
            name = f"topic {topic_id[0]}".replace(" ", "-")
            self.do(CreateTopic(process.node_id, process.node_epoch, name, topic_id, count))

    def delete(self) -> None:
        process = self.process()
        self.do(DeleteTopic(process.node_id, process.node_epoch, self.rng.choice(TOPICS)))

    def open(self) -> None:
        process, partition = self.process(), self.partition()
        found = self.metadata_of(partition)
        if found is None:
            return
        if self.rng.random() < 0.6 and found.leader in self.processes:
            process = self.processes[found.leader]
        answer = self.do(OpenPartition(process.node_id, process.node_epoch, *partition))
        if not isinstance(answer, Refusal):
            process.opened[partition] = answer.data.epoch
            for stream in (answer.data, answer.meta):
                logged = process.logged.get(stream.stream_id, 0)
                process.logged[stream.stream_id] = max(logged, stream.end_offset)

    def open_stream(self) -> None:
        """As an old broker would: one stream, under an epoch of its own choosing."""
        process, found = self.process(), self.metadata_of(self.partition())
        if found is not None:
            stream = self.world.image.streams[found.data_stream_id]
            epoch = stream.epoch + self.rng.choice([0, 1, 1, 2])
            self.do(OpenStream(process.node_id, process.node_epoch, stream.stream_id, epoch))

    def append(self) -> None:
        """A process that has a partition open acknowledges records: they are in its log, and in no object."""
        process = self.process()
        for partition, epoch in list(process.opened.items()):
            found = self.metadata_of(partition)
            if found is None or partition in process.held:
                continue
            stream_id = found.data_stream_id
            stream = self.world.image.streams[stream_id]
            is_owner = (stream.owner, stream.epoch, stream.state) == (
                process.node_id,
                epoch,
                StreamState.OPENED,
            )
            node = self.world.image.nodes.get(process.node_id)
            is_present = node is not None and node.node_epoch == process.node_epoch
            if is_owner and is_present:  # a zombie cannot: the log is possessed by one process at a time
                end = max(self.model.unreplayed.get(stream_id, 0), stream.end_offset) + self.rng.randint(1, 5)
                process.logged[stream_id] = self.model.unreplayed[stream_id] = end

    def upload(self) -> None:
        process = self.process()
        ranges = []
        for stream_id, end in process.logged.items():
            stream = self.world.image.streams.get(stream_id)
            if stream is not None and stream.end_offset < end and stream.owner == process.node_id:
                ranges.append((stream_id, stream.end_offset, end))
        self.commit(process.node_id, process.node_epoch, ranges)

    def commit(self, node_id: int, node_epoch: int, ranges: list[tuple[int, int, int]]) -> None:
        if not ranges:
            return
        if isinstance(
            self.world.answer(PrepareObjects(1, 60_000, node_id=node_id, node_epoch=node_epoch)), Refusal
        ):
            return
        command = self.world.upload(*ranges, node_id=node_id, node_epoch=node_epoch)
        self.late = [*self.late, command][-8:]
        if self.rng.random() < 0.9:
            self.do(command)

    def commit_late(self) -> None:
        if self.late:
            self.do(self.rng.choice(self.late))

    def move(self) -> None:
        self.do(MovePartitions(((*self.partition(), self.rng.choice([*NODES, NO_NODE])),)))

    def give_up(self) -> None:
        """All that the process has open, with the ends that its log has: uploaded before, or not."""
        process = self.process()
        if self.rng.random() < 0.7:
            self.upload()
        ends = []
        for partition, epoch in process.opened.items():
            found = self.metadata_of(partition)
            if partition in process.held or found is None:
                continue
            if found.target != NO_NODE or self.rng.random() < 0.1:
                logged = [
                    process.logged.get(each, 0) for each in (found.data_stream_id, found.meta_stream_id)
                ]
                ends.append(PartitionEnds(*partition, epoch, *logged))
        command = GiveUpPartitions(process.node_id, process.node_epoch, tuple(ends))
        process.held.update({(each.topic_id, each.index): command for each in ends})
        if self.rng.random() < 0.7:
            self.send_give_up(process, command)

    def send_give_up(self, process: Process, command: GiveUpPartitions) -> None:
        answer = self.do(command)
        for ends in command.partitions:
            partition = (ends.topic_id, ends.index)
            if process.held.get(partition) is command:
                del process.held[partition]
            if not isinstance(answer, Refusal):
                process.opened.pop(partition, None)
        if not isinstance(answer, Refusal):
            self.given_up = [*self.given_up, (process, command)][-6:]

    def give_up_late(self) -> None:
        """The outcome was unknown, or the answer to a command that was done was lost."""
        process = self.process()
        unknown = [(process, command) for command in process.held.values()]
        if choices := unknown or self.given_up:
            self.send_give_up(*self.rng.choice(choices))

    def place(self) -> None:
        process = self.process()
        for topic_id in TOPICS:
            topic = self.world.image.topics.get(topic_id)
            for index in range(len(topic.partitions) if topic else 0):
                self.do(PlacePartitions(process.node_id, process.node_epoch, ((topic_id, index),)))

    # -- what always holds -------------------------------------------------------------------------------

    def check(self) -> None:
        image = self.world.image
        for topic in image.topics.values():
            for partition in topic.partitions:
                self.check_partition(partition)
        for stream_id, stream in image.streams.items():
            assert stream.epoch >= self.model.epochs.get(stream_id, -1), "stream epochs rise"
            self.model.epochs[stream_id] = stream.epoch
        for node_id, node in image.nodes.items():
            before = self.model.node_epochs.get(node_id, 0)
            assert node.node_epoch >= before, "node epochs rise, past unregistration"
            self.model.node_epochs[node_id] = node.node_epoch
        counted: dict[int, int] = {}
        for topic in image.topics.values():
            for partition in topic.partitions:
                counted[partition.leader] = counted.get(partition.leader, 0) + 1
        assert dict(image.leader_counts) == counted

    def check_partition(self, partition: PartitionMetadata) -> None:
        """A partition has one known leader, and only that leader has a stream of it open."""
        image = self.world.image
        assert partition.leader in image.nodes
        streams = [image.streams[each] for each in (partition.data_stream_id, partition.meta_stream_id)]
        owners = {stream.owner for stream in streams if stream.state is StreamState.OPENED}
        assert owners <= {partition.leader}

    def fold_again(self) -> None:
        folded = MetadataImage()
        for records in self.world.log:
            folded = next_image(folded, records)
        assert folded == self.world.image
        assert decode_snapshot(folded.version, encode_snapshot(folded)) == folded


STEPS_IN_ALL = 150
WEIGHTS = {
    Walk.restart: 3,
    Walk.fence: 6,
    Walk.resume: 5,
    Walk.drain: 2,
    Walk.unregister: 2,
    Walk.claim: 3,
    Walk.fail_over: 5,
    Walk.create: 4,
    Walk.delete: 1,
    Walk.open: 18,
    Walk.open_stream: 4,
    Walk.append: 14,
    Walk.upload: 8,
    Walk.commit_late: 5,
    Walk.move: 10,
    Walk.give_up: 10,
    Walk.give_up_late: 6,
    Walk.place: 3,
}


@settings(max_examples=examples(30))
@given(seed=st.integers(0, 2**32 - 1))
def test_rule_7_any_interleaving_of_four_nodes_keeps_one_leader_one_owner_and_rising_epochs(
    seed: int,
) -> None:
    walk = Walk(random.Random(seed))
    for step in walk.rng.choices(list(WEIGHTS), list(WEIGHTS.values()), k=STEPS_IN_ALL):
        step(walk)
        walk.check()
    walk.fold_again()
