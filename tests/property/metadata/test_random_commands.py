"""Two nodes and two compaction drivers do whatever they may, late, twice and wrongly; a plain model watches.

The model knows of each stream only its start, its end and whether it lives. After every command each offset of
[start, end) must be held by exactly one range (rule 3), streams and objects must agree about the ranges, a refusal must
have changed nothing and a repetition must be the success it was, with no records. In the end the image must be what the
log gives, from its beginning and from a snapshot anywhere in between.
"""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from siltstone.metadata.applying import next_image
from siltstone.metadata.commands import (
    CloseStream,
    Command,
    CommitCompaction,
    CommitUpload,
    CreateStream,
    DeleteStream,
    ExpireObjects,
    FinishJob,
    ForgetObjects,
    OpenStream,
    PrepareObjects,
    RegisterNode,
    RenewJob,
    StartJob,
    TrimStream,
)
from siltstone.metadata.entities import StreamState
from siltstone.metadata.expiry import deletable_objects
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import Refusal
from siltstone.metadata.snapshot import decode_snapshot, encode_snapshot
from siltstone.metadata.stream_ranges import joined
from siltstone.model.objects import ObjectState
from support.metadata_world import MetadataWorld, new_object

NODES = st.integers(0, 1)
STREAMS = st.integers(0, 3)
SMALL = st.integers(0, 9)
NOT_IDEMPOTENT = (CreateStream, PrepareObjects, StartJob, ExpireObjects)


class Commands(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.world = MetadataWorld()
        self.model_ids: list[int] = []
        self.model: dict[int, list[int]] = {}
        """Stream id → [start, end]; deleted streams are not in it."""
        self.pending: list[Command[Any]] = []
        self.starts = 0
        for node in (0, 1):
            self.world.register(node)
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
                self.model[len(self.model_ids)] = [0, 0]
                self.model_ids.append(len(self.model_ids))
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

    def moved_nothing(self, before: MetadataImage) -> None:
        """Rule 4."""
        for stream_id, after in self.world.image.streams.items():
            old = before.streams[stream_id]
            assert (old.start_offset, old.end_offset, old.epoch, old.owner, old.owner_ranges) == (
                after.start_offset, after.end_offset, after.epoch, after.owner, after.owner_ranges,
            )  # fmt: skip

    # -- nodes and streams -------------------------------------------------------------------------------

    def epoch(self, node: int) -> int:
        return self.world.image.nodes[node].node_epoch

    def stream_epoch(self, stream_id: int) -> int:
        stream = self.world.image.streams.get(stream_id)
        return -1 if stream is None else stream.epoch

    @rule(node=NODES, failover=st.booleans())
    def register(self, node: int, failover: bool) -> None:
        self.starts += 1
        self.do(RegisterNode(node, f"start {self.starts}", "", failover))

    @rule(node=NODES)
    def create(self, node: int) -> None:
        if len(self.model_ids) < 5:
            self.do(CreateStream(node, self.epoch(node)))

    @rule(node=NODES, stream_id=STREAMS, higher=st.integers(-1, 2))
    def open(self, node: int, stream_id: int, higher: int) -> None:
        self.do(OpenStream(node, self.epoch(node), stream_id, self.stream_epoch(stream_id) + higher))

    @rule(node=NODES, stream_id=STREAMS)
    def close(self, node: int, stream_id: int) -> None:
        self.do(CloseStream(node, self.epoch(node), stream_id, self.stream_epoch(stream_id)))

    @rule(node=NODES, stream_id=STREAMS, by=st.integers(-1, 12))
    def trim(self, node: int, stream_id: int, by: int) -> None:
        stream = self.world.image.streams.get(stream_id)
        start = 0 if stream is None else max(0, stream.start_offset + by)
        self.do(TrimStream(node, self.epoch(node), stream_id, self.stream_epoch(stream_id), start))

    @rule(node=NODES, stream_id=STREAMS, closing=st.booleans())
    def delete(self, node: int, stream_id: int, closing: bool) -> None:
        stream = self.world.image.streams.get(stream_id)
        if closing and stream is not None and stream.owner >= 0:
            self.close(stream.owner, stream_id)
        self.do(DeleteStream(node, self.epoch(node), stream_id, self.stream_epoch(stream_id)))

    # -- uploads: prepared now, committed later, perhaps twice -------------------------------------------

    @rule(
        node=NODES, lengths=st.dictionaries(STREAMS, st.integers(1, 8), min_size=1), split=SMALL, shift=SMALL
    )
    def upload(self, node: int, lengths: dict[int, int], split: int, shift: int) -> None:
        ranges = []
        for stream_id, length in sorted(lengths.items()):
            stream = self.world.image.streams.get(stream_id)
            begin = 0 if stream is None else stream.end_offset
            begin = max(0, begin + {0: 1, 1: -1}.get(shift, 0))
            if stream is not None and stream.owner == node:
                ranges.append((stream_id, begin, begin + length))
        alone = tuple(one for one in ranges if one[0] == split)
        together = [one for one in ranges if one[0] != split]
        if ranges:
            self.pending.append(
                self.world.upload(*together, alone=alone, node_id=node, node_epoch=self.epoch(node))
            )

    @rule(which=SMALL, keep=st.booleans())
    def commit(self, which: int, keep: bool) -> None:
        if self.pending:
            at = which % len(self.pending)
            self.do(self.pending[at] if keep else self.pending.pop(at))

    # -- compaction: planned on today's image, committed on another day's --------------------------------

    @rule(driver=st.integers(0, 1))
    def start(self, driver: int) -> None:
        self.do(StartJob("compaction", f"driver {driver}", 60_000))

    @rule(job_id=st.integers(0, 5), succeeded=st.booleans())
    def finish(self, job_id: int, succeeded: bool) -> None:
        self.do(FinishJob(job_id, succeeded))

    @rule(job_id=st.integers(0, 5))
    def renew(self, job_id: int) -> None:
        self.do(RenewJob(job_id, 60_000))

    @rule(sources=st.sets(SMALL, min_size=1, max_size=5), cut=SMALL, spoil=st.integers(0, 5))
    def plan(self, sources: set[int], cut: int, spoil: int) -> None:
        image = self.world.image
        running = [job.job_id for job in image.jobs.values() if job.state.name == "RUNNING"]
        committed = sorted(i for i, row in image.objects.items() if row.state is ObjectState.COMMITTED)
        chosen = tuple(committed[-1 - number] for number in sources if number < len(committed))
        if not running or not chosen:
            return
        pieces = self.pieces(image, chosen, cut)
        if pieces and spoil == 0:
            pieces.pop()
        if pieces and spoil == 1:
            stream_id, left, right = pieces.pop()
            pieces.append((stream_id, left, right + 1))
        first = self.world.prepare_for_job(running[0], max(1, len(pieces)))
        made = tuple(new_object(first + at, piece) for at, piece in enumerate(pieces))
        self.pending.append(CommitCompaction(running[0], chosen, None, made))

    def pieces(self, image: MetadataImage, chosen: tuple[int, ...], cut: int) -> list[tuple[int, int, int]]:
        """The live runs the objects hold, the longer ones cut in two."""
        made = []
        for stream_id, stream in sorted(image.streams.items()):
            ranges = [held for held in stream.ranges if held.object_id in chosen]
            for left, right in joined(ranges):
                start = max(left, stream.start_offset)
                if stream.state is StreamState.DELETED or start >= right:
                    continue
                inner = start + cut
                made += [(stream_id, start, inner), (stream_id, inner, right)] if start < inner < right else [
                    (stream_id, start, right)
                ]  # fmt: skip
        return made

    # -- time --------------------------------------------------------------------------------------------

    @rule(minutes=st.integers(1, 70))
    def time_passes(self, minutes: int) -> None:
        self.world.now_ms += minutes * 60_000

    @rule()
    def sweep(self) -> None:
        self.do(ExpireObjects(3))
        due = deletable_objects(self.world.image, self.world.now_ms, 600_000, 5)
        self.do(ForgetObjects(tuple(row.object_id for row in due), 600_000))

    # -- what always holds -------------------------------------------------------------------------------

    @invariant()
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

    @invariant()
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

    @invariant()
    def deleted_streams_are_forgotten_when_nothing_holds_them(self) -> None:
        for stream in self.world.image.streams.values():
            assert stream.state is not StreamState.DELETED or stream.ranges

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        log, final = self.world.log, self.world.image
        folded = MetadataImage()
        for records in log:
            folded = next_image(folded, records)
        assert folded == final
        for split in {0, len(log) // 3, len(log) // 2, len(log)}:
            at_split = self.world.images[split]
            image = decode_snapshot(at_split.version, encode_snapshot(at_split))
            for records in log[split:]:
                image = next_image(image, records)
            assert image == final


TestRandomCommands = Commands.TestCase
TestRandomCommands.settings = settings(max_examples=40, stateful_step_count=50, deadline=None)
