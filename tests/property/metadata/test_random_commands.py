"""Two nodes and two compaction drivers do whatever they may, late, twice and wrongly; a plain model watches.

The model knows of each stream only its start, end and whether it lives, of each topic its name, streams and configs.
After every command each offset of [start, end) must be held by exactly one range (rule 3), streams and objects must
agree about the ranges, a refusal must have changed nothing and a repetition must be the success it was, with no
records. In the end the image must be what the log gives, from its beginning and from a snapshot anywhere in between.
"""

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from siltstone.maintenance.checking.image_check import check_topics
from siltstone.metadata.commands import (
    AddPartitions,
    AlterTopicConfigs,
    ClaimFailover,
    CloseStream,
    Command,
    CommitCompaction,
    CommitUpload,
    CreateStream,
    CreateTopic,
    DeleteStream,
    DeleteTopic,
    ExpireObjects,
    FenceNode,
    FinishJob,
    ForgetObjects,
    OpenStream,
    PrepareObjects,
    RegisterNode,
    RenewJob,
    ResumeNode,
    StartJob,
    TakeNumbers,
    TrimStream,
)
from siltstone.metadata.entities import StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import deletable_objects
from siltstone.metadata.refusals import Refusal
from siltstone.metadata.snapshot import decode_snapshot, encode_snapshot
from siltstone.metadata.streams import joined
from siltstone.model.objects import ObjectState
from support.metadata.metadata_world import MetadataWorld, new_object, next_image
from support.values.examples import examples

NOT_IDEMPOTENT = (
    CreateStream, PrepareObjects, StartJob, ExpireObjects, AddPartitions, DeleteTopic, TakeNumbers,
)  # fmt: skip

RECOVERER = 2
"""The node that replays the logs of the other two, and does nothing else."""


class Walk:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.world = MetadataWorld()
        self.model_ids: list[int] = []
        self.model: dict[int, list[int]] = {}
        """Stream id → [start, end]; deleted streams are not in it."""
        self.topics: dict[str, tuple[str, list[int], dict[str, str]]] = {}
        """Topic id → name, streams in the order of the partitions, configs."""
        self.numbers = 0
        self.pending: list[Command[Any]] = []
        self.starts = 0
        for node in (0, 1):
            self.world.register(node)
        self.world.register(RECOVERER, "recoverer")
        for stream_id in range(3):
            self.do(CreateStream(0, 1))
            self.do(OpenStream(stream_id % 2, 1, stream_id, 0))

    # -- doing, and what holds of each command -----------------------------------------------------------

    def do(self, command: Command[Any]) -> Any:
        before = self.world.image
        held_before = {stream_id: row.ranges for stream_id, row in before.streams.items()}
        answer = self.world.answer(command)
        if isinstance(answer, Refusal):
            assert self.world.image is before
            assert held_before == {stream_id: row.ranges for stream_id, row in before.streams.items()}
            return answer
        self.note(command)
        self.note_topic(command)
        if isinstance(command, CommitCompaction):
            self.moved_nothing(before)
        if not isinstance(command, NOT_IDEMPOTENT):
            assert self.world.answer(command) == answer, (
                f"{command} was a success and is refused when repeated"
            )
            assert self.world.written == 0
        return answer

    def note(self, command: Command[Any]) -> None:
        """The model's own rules, as plain as they can be."""
        match command:
            case CreateStream():
                self.new_stream()
            case TrimStream(stream_id=stream_id, start_offset=start):
                left, right = self.model[stream_id]
                self.model[stream_id] = [max(left, start), max(right, start)]
            case DeleteStream(stream_id=stream_id):
                self.model.pop(stream_id, None)
            case CommitUpload():
                sets = [command.stream_set_object] if command.stream_set_object else []
                for held in (held for new in (*sets, *command.stream_objects) for held in new.ranges):
                    if held.stream_id in self.model:
                        bounds = self.model[held.stream_id]
                        bounds[1] = max(bounds[1], held.end_offset)

    def new_stream(self) -> int:
        stream_id = len(self.model_ids)
        self.model_ids.append(stream_id)
        self.model[stream_id] = [0, 0]
        return stream_id

    def note_topic(self, command: Command[Any]) -> None:
        match command:
            case CreateTopic(name=name, topic_id=topic_id) if topic_id not in self.topics:
                assert name not in {standing for standing, _, _ in self.topics.values()}
                made = [self.new_stream() for _ in range(2 * command.partition_count)]
                self.topics[topic_id] = (name, made, dict(command.configs))
            case AddPartitions(topic_id=topic_id, partition_count=count):
                streams = self.topics[topic_id][1]
                streams += [self.new_stream() for _ in range(2 * count - len(streams))]
            case AlterTopicConfigs(topic_id=topic_id):
                configs = self.topics[topic_id][2]
                for key in (*configs,) if command.replace else command.remove:
                    configs.pop(key, None)
                configs.update(command.put)
            case DeleteTopic(topic_id=topic_id):
                for stream_id in self.topics.pop(topic_id)[1]:
                    self.model.pop(stream_id)
            case TakeNumbers(count=count):
                self.numbers += count

    def moved_nothing(self, before: MetadataImage) -> None:
        """Rule 4."""
        for stream_id, after in self.world.image.streams.items():
            old = before.streams[stream_id]
            assert (old.start_offset, old.end_offset, old.epoch, old.owner, old.owner_ranges) == (
                after.start_offset, after.end_offset, after.epoch, after.owner, after.owner_ranges,
            )  # fmt: skip

    # -- nodes and streams -------------------------------------------------------------------------------

    def node(self) -> int:
        return self.rng.randrange(2)

    def stream(self) -> int:
        """Any id there was, now and then one there was not; not seldom one that is gone."""
        return self.rng.randrange(len(self.model_ids) + (self.rng.random() < 0.1))

    def epoch(self, node: int) -> int:
        """The node's, now and then the one before."""
        return self.world.image.nodes[node].node_epoch - (self.rng.random() < 0.05)

    def stream_epoch(self, stream_id: int) -> int:
        stream = self.world.image.streams.get(stream_id)
        return -1 if stream is None else stream.epoch

    def owner(self, stream_id: int) -> int:
        """The stream's, now and then the other node."""
        stream = self.world.image.streams.get(stream_id)
        if stream is None or stream.owner < 0 or self.rng.random() < 0.1:
            return self.node()
        return stream.owner

    def register(self) -> None:
        self.starts += 1
        node = self.node()
        standing = self.world.image.nodes[node]
        log_epoch = self.rng.choice([None, None, 0, standing.log_epoch, standing.node_epoch])
        given_up = self.rng.choice([0, 0, standing.log_epoch])
        failover = self.rng.random() < 0.5
        incarnation = "recoverer" if failover else f"start {self.starts}"
        if failover:
            self.do(FenceNode(node, standing.node_epoch))
            self.do(ClaimFailover(RECOVERER, 1, node))
        command = RegisterNode(node, incarnation, "", failover, log_epoch, given_up)
        refused = isinstance(self.do(command), Refusal)
        open_before = any(
            row.owner == node and row.state is StreamState.OPENED for row in self.world.image.streams.values()
        )
        is_behind = log_epoch is not None and log_epoch < standing.log_epoch != given_up
        is_repeated = failover and standing.failover
        assert refused == (open_before and is_behind and not is_repeated)
        if failover:
            self.do(ClaimFailover(RECOVERER, 1, node, gives_back=True))
            self.do(ResumeNode(node, standing.node_epoch, standing.incarnation))

    def create(self) -> None:
        if len(self.model_ids) < 6:
            node = self.node()
            self.do(CreateStream(node, self.epoch(node)))

    def open(self) -> None:
        node, stream_id = self.node(), self.stream()
        higher = self.rng.choice([-1, 0, 0, 1, 1, 1, 2])
        self.do(OpenStream(node, self.epoch(node), stream_id, self.stream_epoch(stream_id) + higher))

    def close(self) -> None:
        stream_id = self.stream()
        node = self.owner(stream_id)
        self.do(CloseStream(node, self.epoch(node), stream_id, self.stream_epoch(stream_id)))

    def trim(self) -> None:
        stream_id = self.stream()
        node = self.owner(stream_id)
        stream = self.world.image.streams.get(stream_id)
        start = 0 if stream is None else max(0, stream.start_offset + self.rng.randint(-1, 12))
        self.do(TrimStream(node, self.epoch(node), stream_id, self.stream_epoch(stream_id), start))

    def delete(self) -> None:
        stream_id = self.stream()
        node, epoch = self.owner(stream_id), self.stream_epoch(stream_id)
        if self.rng.random() < 0.7:
            self.do(CloseStream(node, self.epoch(node), stream_id, epoch))
        self.do(DeleteStream(node, self.epoch(node), stream_id, epoch))

    # -- topics ------------------------------------------------------------------------------------------

    def topic_id(self) -> str:
        """A pin that exists, or one of a few that exist, have ended, or never existed."""
        standing = sorted(self.topics) if self.rng.random() < 0.7 else []
        return self.rng.choice(standing or ["0" * 32, "1" * 32, "2" * 32])

    def create_topic(self) -> None:
        node = self.node()
        name = self.rng.choice(["red", "blue", "a.b", "a_b", "a_b", ".."])
        configs = {"k": "1"} if self.rng.random() < 0.5 else {}
        count = self.rng.choice([0, 1, 1, 2])
        topic_id = self.rng.choice("0123") * 32
        self.do(CreateTopic(node, self.epoch(node), name, topic_id, count, configs=configs))

    def open_topic(self) -> None:
        """All its streams at one node, as a broker does."""
        node = self.node()
        for stream_id in self.topics.get(self.topic_id(), ("", [], {}))[1]:
            self.do(OpenStream(node, self.epoch(node), stream_id, self.stream_epoch(stream_id) + 1))

    def add_partitions(self) -> None:
        node = self.node()
        self.do(AddPartitions(node, self.epoch(node), self.topic_id(), self.rng.randint(1, 4)))

    def configure(self) -> None:
        put = {self.rng.choice("kmn"): self.rng.choice("12")}
        self.do(AlterTopicConfigs(self.topic_id(), put, (self.rng.choice("kmn"),), self.rng.random() < 0.3))

    def delete_topic(self) -> None:
        node = self.node()
        self.do(DeleteTopic(node, self.epoch(node), self.topic_id()))

    def take_numbers(self) -> None:
        before = self.numbers
        answer = self.do(TakeNumbers("ids", self.rng.randint(0, 3)))
        assert isinstance(answer, Refusal) or answer == before

    # -- uploads: prepared now, committed now or later, perhaps twice ------------------------------------

    def upload(self) -> None:
        """What one node's cache block could hold: the ends of its streams and on; now and then not quite."""
        node = self.node()
        ranges = []
        for stream_id, stream in sorted(self.world.image.streams.items()):
            if stream.owner == node and self.rng.random() < 0.7:
                begin = max(
                    0, stream.end_offset + (self.rng.randint(-2, 2) if self.rng.random() < 0.05 else 0)
                )
                ranges.append((stream_id, begin, begin + self.rng.randint(1, 8)))
        if not ranges:
            return
        alone = [one for one in ranges if self.rng.random() < 0.3]
        together = [one for one in ranges if one not in alone]
        epoch = self.world.image.nodes[node].node_epoch
        self.finish(self.world.upload(*together, alone=tuple(alone), node_id=node, node_epoch=epoch))

    def finish(self, commit: Command[Any]) -> None:
        self.pending.append(commit)
        if self.rng.random() < 0.8:
            self.do(commit)

    def commit_late(self) -> None:
        if self.pending:
            self.do(self.rng.choice(self.pending[-12:]))

    # -- compaction: planned on today's image, committed today or on another day's -----------------------

    def job_step(self) -> None:
        job_id = max(0, self.world.image.next_job_id - self.rng.randint(0, 2))
        again = self.rng.random() < 0.5
        self.do(RenewJob(job_id, 60_000) if again else FinishJob(job_id, self.rng.random() < 0.5))

    def compact(self) -> None:
        self.do(StartJob("compaction", f"driver {self.node()}", 60_000))
        image = self.world.image
        running = [job.job_id for job in image.jobs.values() if job.state.name == "RUNNING"]
        committed = sorted(i for i, row in image.objects.items() if row.state is ObjectState.COMMITTED)
        chosen = tuple(self.rng.sample(committed, min(len(committed), self.rng.randint(1, 5))))
        if not chosen:
            return
        pieces = self.pieces(image, chosen)
        if pieces and self.rng.random() < 0.1:
            stream_id, left, right = pieces.pop()
            pieces += self.rng.choice([[], [(stream_id, left, right + 1)], [(stream_id, left, right)] * 2])
        first = self.world.prepare_for_job(running[0], max(1, len(pieces)))
        together = {stream_id: (stream_id, left, right) for stream_id, left, right in pieces}
        in_set = list(together.values()) if self.rng.random() < 0.5 else []
        alone = list(pieces)
        for one in in_set:
            alone.remove(one)
        sso = new_object(first, *in_set) if in_set else None
        sos = tuple(new_object(first + at, piece) for at, piece in enumerate(alone, start=bool(in_set)))
        self.finish(CommitCompaction(running[0], chosen, sso, sos))

    def pieces(self, image: MetadataImage, chosen: tuple[int, ...]) -> list[tuple[int, int, int]]:
        """The live runs the objects hold, some cut in two."""
        made = []
        for stream_id, stream in sorted(image.streams.items()):
            for left, right in joined(held for held in stream.ranges if held.object_id in chosen):
                start = max(left, stream.start_offset)
                if stream.state is StreamState.DELETED or start >= right:
                    continue
                cut = self.rng.randint(start, right)
                made += [(stream_id, *run) for run in ((start, cut), (cut, right)) if run[0] < run[1]]
        return made

    # -- time --------------------------------------------------------------------------------------------

    def time_passes(self) -> None:
        self.world.now_ms += self.rng.choice([1, 5, 30]) * 60_000

    def sweep(self) -> None:
        self.do(ExpireObjects(3))
        due = deletable_objects(self.world.image, self.world.now_ms, 600_000, 5)
        self.do(ForgetObjects(tuple(row.object_id for row in due), 600_000))

    # -- what always holds -------------------------------------------------------------------------------

    def check(self) -> None:
        self.rule_3_every_offset_exactly_once()
        self.streams_and_objects_agree()
        self.deleted_streams_are_forgotten_when_nothing_holds_them()
        self.topics_are_those_of_the_model()

    def rule_3_every_offset_exactly_once(self) -> None:
        image = self.world.image
        living = {i: row for i, row in image.streams.items() if row.state is not StreamState.DELETED}
        assert {i: [row.start_offset, row.end_offset] for i, row in living.items()} == self.model
        for stream in living.values():
            holders = [0] * (stream.end_offset + 1)
            for held in stream.ranges:
                for offset in range(held.start_offset, held.end_offset):
                    holders[offset] += 1
            assert max(holders) <= 1
            assert all(holders[offset] == 1 for offset in range(stream.start_offset, stream.end_offset))

    def streams_and_objects_agree(self) -> None:
        image = self.world.image
        of_objects = {id(held): held for row in image.objects.values() for held in row.ranges}
        of_streams = [held for row in image.streams.values() for held in row.ranges]
        assert {id(held) for held in of_streams} == set(of_objects)
        assert len(of_streams) == len(of_objects)
        by_state = {state: set() for state in ObjectState}
        for object_id, row in image.objects.items():
            by_state[row.state].add(object_id)
            assert bool(row.ranges) <= (row.state is ObjectState.COMMITTED)
        assert set(image.prepared) == by_state[ObjectState.PREPARED]
        assert set(image.destroyed) == by_state[ObjectState.DESTROYED]

    def deleted_streams_are_forgotten_when_nothing_holds_them(self) -> None:
        for stream in self.world.image.streams.values():
            assert stream.state is not StreamState.DELETED or stream.ranges

    def topics_are_those_of_the_model(self) -> None:
        """No stream in two partitions or gone: the model gives each its own, and deletes none by itself."""
        image = self.world.image
        seen = {
            topic_id: (
                topic.name,
                [held for each in topic.partitions for held in (each.data_stream_id, each.meta_stream_id)],
                topic.configs,
            )
            for topic_id, topic in image.topics.items()
        }
        assert seen == self.topics
        assert dict(image.topic_ids) == {name: topic_id for topic_id, (name, _, _) in self.topics.items()}
        assert all(held in self.model for _, streams, _ in self.topics.values() for held in streams)
        assert image.sequences.get("ids", 0) == self.numbers
        assert [*check_topics(image)] == []

    def fold_again(self) -> None:
        log, final = self.world.log, self.world.image
        folded = MetadataImage()
        for records in log:
            folded = next_image(folded, records)
        assert folded == final
        for split in {0, self.rng.randrange(len(log)), len(log)}:
            at_split = self.world.images[split]
            image = decode_snapshot(at_split.version, encode_snapshot(at_split))
            for records in log[split:]:
                image = next_image(image, records)
            assert image == final


STEPS_IN_ALL = 120
WEIGHTS = {
    Walk.register: 2,
    Walk.create: 1,
    Walk.open: 12,
    Walk.close: 5,
    Walk.trim: 6,
    Walk.delete: 2,
    Walk.create_topic: 6,
    Walk.open_topic: 4,
    Walk.add_partitions: 2,
    Walk.configure: 3,
    Walk.delete_topic: 3,
    Walk.take_numbers: 2,
    Walk.upload: 30,
    Walk.commit_late: 8,
    Walk.job_step: 3,
    Walk.compact: 20,
    Walk.time_passes: 4,
    Walk.sweep: 5,
}


@settings(max_examples=examples(20))
@given(seed=st.integers(0, 2**32 - 1))
def test_random_commands(seed: int) -> None:
    walk = Walk(random.Random(seed))
    for step in walk.rng.choices(list(WEIGHTS), list(WEIGHTS.values()), k=STEPS_IN_ALL):
        step(walk)
        walk.check()
    walk.fold_again()
