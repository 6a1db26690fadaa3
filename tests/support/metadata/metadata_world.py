"""An image and the records that made it, with time standing still: decisions without a log store."""

from collections.abc import Iterable
from typing import Any, TypeVar

from siltstone.metadata.applying import apply_records
from siltstone.metadata.commands import (
    ClaimFailover,
    Command,
    CommitCompaction,
    CommitUpload,
    CreateStream,
    FenceNode,
    NewObject,
    OpenStream,
    PrepareObjects,
    RegisterNode,
    StartJob,
)
from siltstone.metadata.decisions.table import decide
from siltstone.metadata.entities import NodeListener
from siltstone.metadata.image import ImageDraft, MetadataImage
from siltstone.metadata.records import Record
from siltstone.metadata.refusals import Refusal
from siltstone.model.objects import ObjectRange

R = TypeVar("R")
HOUR_MS = 3_600_000


def object_range(object_id: int, stream_id: int, start: int, end: int, bytes_each: int = 10) -> ObjectRange:
    return ObjectRange(stream_id, object_id, start, end, (end - start) * bytes_each, end)


def new_object(object_id: int, *ranges: tuple[int, int, int]) -> NewObject:
    """``ranges``: (stream id, start, end)."""
    made = tuple(object_range(object_id, *one) for one in ranges)
    return NewObject(object_id, 100 + sum(one.size_bytes for one in made), made)


def next_image(image: MetadataImage, records: Iterable[Record]) -> MetadataImage:
    """Returns the image after one entry of the log."""
    draft = ImageDraft(image)
    apply_records(draft, records)
    return draft.frozen(image.version + 1)


class MetadataWorld:
    def __init__(self) -> None:
        self.image = MetadataImage()
        self.images = [self.image]
        """The images, by version."""
        self.log: list[tuple[Record, ...]] = []
        self.now_ms = 1_000_000_000

    def answer(self, command: Command[Any]) -> Any:
        """Returns the result or the Refusal; ``written`` says how many records it cost."""
        decision = decide(self.image, command, self.now_ms)
        self.written = 0
        if isinstance(decision, Refusal):
            return decision
        self.written = len(decision.records)
        if decision.records:
            self.image = next_image(self.image, decision.records)
            self.images.append(self.image)
            self.log.append(decision.records)
        return decision.result

    def do(self, command: Command[R]) -> R:
        answer = self.answer(command)
        if isinstance(answer, Refusal):
            raise answer
        return answer

    def outcome(self, command: Command[Any]) -> tuple[str, int]:
        """("OK" or the refusal's code, records written): what the scenario tables say."""
        answer = self.answer(command)
        return (answer.code if isinstance(answer, Refusal) else "OK"), self.written

    def register(self, node_id: int, incarnation: str = "first") -> int:
        return self.do(RegisterNode(node_id, incarnation, f"wal-of-{node_id}")).node_epoch

    def register_reachable(self, node_id: int, incarnation: str = "first", rack: str | None = None) -> int:
        """Registers a node with a listener, as a server of a cluster does."""
        listeners = (NodeListener("PLAINTEXT", f"host-{node_id}", 9092),)
        command = RegisterNode(node_id, incarnation, f"wal-of-{node_id}", listeners=listeners, rack=rack)
        return self.do(command).node_epoch

    def fence(self, node_id: int) -> None:
        self.do(FenceNode(node_id, self.image.nodes[node_id].node_epoch))

    def fail_over(self, node_id: int, by: int = 99) -> int:
        """Fences the node, and another claims its failover and registers for it: its new epoch."""
        if by not in self.image.nodes:
            self.register(by, f"incarnation of {by}")
        self.fence(node_id)
        claimer = self.image.nodes[by]
        self.do(ClaimFailover(by, claimer.node_epoch, node_id))
        return self.do(RegisterNode(node_id, claimer.incarnation, "elsewhere", failover=True)).node_epoch

    def open_stream(self, node_id: int = 0, node_epoch: int = 1, stream_epoch: int = 0) -> int:
        stream_id = self.do(CreateStream(node_id, node_epoch))
        self.do(OpenStream(node_id, node_epoch, stream_id, stream_epoch))
        return stream_id

    def prepare(self, count: int = 1, *, node_id: int = 0, node_epoch: int = 1) -> int:
        return self.do(PrepareObjects(count, HOUR_MS, node_id=node_id, node_epoch=node_epoch))

    def prepare_for_job(self, job_id: int, count: int = 1) -> int:
        return self.do(PrepareObjects(count, HOUR_MS, job_id=job_id))

    def upload(
        self,
        *ranges: tuple[int, int, int],
        alone: tuple[tuple[int, int, int], ...] = (),
        node_id: int = 0,
        node_epoch: int = 1,
        data_time_ms: int = 0,
    ) -> CommitUpload:
        """Prepares and builds the commit: ``ranges`` in one SSO (none: no SSO), each of ``alone`` an SO."""
        sets = bool(ranges)
        first = self.prepare(sets + len(alone), node_id=node_id, node_epoch=node_epoch)
        sso = new_object(first, *ranges) if sets else None
        sos = tuple(new_object(first + sets + at, one) for at, one in enumerate(alone))
        return CommitUpload(node_id, node_epoch, sso, sos, data_time_ms)

    def start_job(self, kind: str = "compaction", driver: str = "driver", lease_ms: int = 60_000) -> int:
        return self.do(StartJob(kind, driver, lease_ms))

    def compaction(
        self,
        job_id: int,
        compacted: tuple[int, ...],
        *ranges: tuple[int, int, int],
        alone: tuple[tuple[int, int, int], ...] = (),
    ) -> CommitCompaction:
        sets = bool(ranges)
        first = self.prepare_for_job(job_id, sets + len(alone)) if sets or alone else 0
        sso = new_object(first, *ranges) if sets else None
        sos = tuple(new_object(first + sets + at, one) for at, one in enumerate(alone))
        return CommitCompaction(job_id, compacted, sso, sos)

    def ends(self, *stream_ids: int) -> tuple[int, ...]:
        return tuple(self.image.streams[stream_id].end_offset for stream_id in stream_ids)

    def held(self, stream_id: int) -> list[tuple[int, int, int]]:
        """Returns (object id, start, end) of the stream's ranges."""
        ranges = self.image.streams[stream_id].ranges
        return [(one.object_id, one.start_offset, one.end_offset) for one in ranges]
