"""What the engine has to know of a round: stream set objects that are replaced together, by one plan and one commit.

A driver may be killed at any point: the sweep deletes the objects that it prepared when their time limit has passed.
Tasks may outlive the driver; they write what was planned, under ids that only this plan uses.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import overload

import msgspec

from siltstone.carrying.committing import Standing, commit, prepare
from siltstone.carrying.engine import WorkKind
from siltstone.carrying.pipeline.kind import Attempt, Outcome, UnitReport, object_name
from siltstone.maintenance.stream_set_compaction.plan import CompactionPlan
from siltstone.maintenance.stream_set_compaction.task import run_iteration
from siltstone.maintenance.stream_set_compaction.task_input import CODEC, IterationInput, IterationResult
from siltstone.metadata.commands import CommitCompaction, NewObject, PrepareObjects
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import committed_object
from siltstone.model.errors import CorruptData, SiltstoneError
from siltstone.model.objects import object_key
from siltstone.object_store.port import MultipartUpload, ObjectStore
from siltstone.offline.output_buckets import OutputBuckets
from siltstone.offline.tasks.runner import TaskFailure

OVERTAKEN = "objects were compacted by another driver; plan again"


class PlannedRound(msgspec.Struct, frozen=True):
    """A round under the name of its unit."""

    name: str
    plan: CompactionPlan


class SourcesUnusable(CorruptData):
    """Tasks could not read some of the sources, so the round was ended without a commit. ``failures`` has one for each
    object."""

    def __init__(self, failures: Sequence[TaskFailure]) -> None:
        super().__init__("; ".join(failure.reason for failure in failures))
        self.failures = tuple({failure.object_id: failure for failure in failures}.values())

    def still_committed(self, image: MetadataImage) -> list[TaskFailure]:
        """Returns the failures without those of objects that other drivers have destroyed meanwhile, which need not be
        read."""
        return [
            failure
            for failure in self.failures
            if failure.object_id is None or committed_object(image, failure.object_id) is not None
        ]


class TaskInputs(Sequence[bytes]):
    """The task inputs of a plan. Each is encoded when it is read, since all together would hold all index entries
    again."""

    def __init__(self, count: int, make: Callable[[int], IterationInput]) -> None:
        self._count = count
        self._make = make

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> bytes: ...
    @overload
    def __getitem__(self, at: slice) -> list[bytes]: ...
    def __getitem__(self, at: int | slice) -> bytes | list[bytes]:
        numbers = range(self._count)[at]
        if isinstance(numbers, range):
            return [CODEC.encode_input(self._make(number)) for number in numbers]
        return CODEC.encode_input(self._make(numbers))


class CompactionRound:
    """One round that is being carried out. The stream set object, if the plan has one, is the first new object: it is
    uploaded in parts, one for each task. Stream objects are put by the tasks."""

    def __init__(
        self, attempt: Attempt, unit: PlannedRound, outputs: OutputBuckets, report: "MakeReport"
    ) -> None:
        """Raises what ``OutputBuckets`` raises."""
        self.name = unit.name
        self.plan = unit.plan
        self.trouble: SiltstoneError | None = None
        self.results: list[IterationResult] = []
        self.first_object_id = 0
        self._attempt = attempt
        self._context = attempt.context
        self._outputs = outputs
        self._make_report = report
        self._set_bucket_id = outputs.of_set()
        self._bucket_ids = [outputs.of_stream(stream_id) for stream_id in self.plan.stream_of_pieces]
        self._upload: MultipartUpload | None = None
        self._standing: Mapping[int, Standing] = {}

    @property
    def labels(self) -> Sequence[str]:
        return [object_name(each) for each in self.plan.compacted_ids]

    @property
    def data_bytes(self) -> int:
        return self.plan.live_bytes

    def prepare(self) -> None:
        """Prepares the ids; a plan without live data makes no object."""
        count = self.plan.object_count
        if not count:
            return
        sets = (self._set_bucket_id,) * self.plan.has_stream_set_object
        command = PrepareObjects(
            count,
            self.plan.settings.time_limit_ms,
            job_id=self._attempt.job_id,
            bucket_ids=(*sets, *self._bucket_ids),
        )
        # From here on ids, part numbers and bytes follow from the plan. Why not a new name for each attempt of a
        # task: the leftovers of attempts that lost would have to be found (decision 5).
        self.first_object_id = prepare(self._context, command, self._outputs)

    def begin(self) -> None:
        if self.plan.has_stream_set_object:
            self._upload = self._store.start_multipart(object_key(self.first_object_id))

    def inputs(self) -> Sequence[bytes]:
        return TaskInputs(len(self.plan.bounds), self._input)

    def take(self, answers: Sequence[bytes]) -> None:
        self.results = [CODEC.decode_result(answer) for answer in answers]
        if failures := [result.failure for result in self.results if result.failure is not None]:
            self.trouble = SourcesUnusable(failures)

    def complete(self) -> None:
        if self._upload is None:
            return
        parts = [result.part for result in self.results if result.part is not None]
        self._store.complete_multipart(self._upload, parts)
        self._upload = None
        (sets, _) = self.plan.new_objects(self.first_object_id)
        written = sum(part.size_bytes for part in parts)
        assert sets is not None and written == sets.size_bytes, f"{written} bytes written of {sets}"

    @property
    def new_objects(self) -> Mapping[int, int]:
        return {each.object_id: each.size_bytes for each in self._new()}

    @property
    def bytes_after(self) -> int:
        """The size of all new objects."""
        return sum(self.new_objects.values())

    def place(self, standing: Mapping[int, Standing]) -> None:
        self._standing = standing

    def commit(self) -> None:
        new = tuple(
            msgspec.structs.replace(each, bucket_ids=self._standing[each.object_id].bucket_ids)
            for each in self._new()
        )
        has_set = self.plan.has_stream_set_object
        sets, stream_objects = (new[0], new[1:]) if has_set else (None, new)
        commit(
            self._context,
            CommitCompaction(self._attempt.job_id, self.plan.compacted_ids, sets, stream_objects),
        )

    def done(self) -> UnitReport:
        return self._make_report(self)

    def abandon(self) -> None:
        if self._upload is not None:
            self._store.abort_multipart(self._upload)

    @property
    def _store(self) -> ObjectStore:
        return self._context.buckets.store(self._set_bucket_id)

    def _new(self) -> tuple[NewObject, ...]:
        sets, stream_objects = self.plan.new_objects(self.first_object_id)
        return (*((sets,) if sets else ()), *stream_objects)

    def _input(self, at: int) -> IterationInput:
        iteration = self.plan.iteration(at)
        first = self.plan.has_stream_set_object
        of_objects = tuple(self._bucket_ids[piece.number - first] for piece in iteration.stream_objects)
        sources = {each for source in iteration.sources for each in (source.bucket_id, *source.copies)}
        urls = self._context.buckets.urls
        return IterationInput(
            iteration=iteration,
            bucket_urls={
                bucket_id: urls[bucket_id] for bucket_id in {self._set_bucket_id, *of_objects, *sources}
            },
            set_bucket_id=self._set_bucket_id,
            bucket_ids=of_objects,
            first_object_id=self.first_object_id,
            upload=self._upload,
        )


MakeReport = Callable[[CompactionRound], UnitReport]


def rounds(
    attempt: Attempt,
    report: MakeReport,
    failed: Callable[[CompactionRound], Sequence[UnitReport]],
) -> WorkKind[PlannedRound, CompactionRound]:
    outputs = OutputBuckets(attempt.context)

    def buckets(unit: PlannedRound) -> set[int]:
        streams = {outputs.of_stream(stream_id) for stream_id in unit.plan.stream_of_pieces}
        return {outputs.of_set(), *streams, *outputs.of_copies()}

    def prepare_each(works: Sequence[CompactionRound]) -> None:
        for work in works:
            work.prepare()

    return WorkKind(
        step="rewrite",
        task=run_iteration,
        stands=stands,
        buckets=buckets,
        make=lambda *_: lambda unit: CompactionRound(attempt, unit, outputs, report),
        prepare=prepare_each,
        overtaken=OVERTAKEN,
        failed=failed,
    )


def stands(image: MetadataImage, unit: PlannedRound) -> bool:
    """Returns whether no other driver has replaced an object since the plan was made."""
    return all(committed_object(image, object_id) is not None for object_id in unit.plan.compacted_ids)


def failed_objects(attempt: Attempt, work: CompactionRound) -> list[UnitReport]:
    """Makes a FAILED report for each object that the tasks could not read and that is still needed; NOT_NEEDED for the
    unit when none is."""
    if not isinstance(work.trouble, SourcesUnusable):
        return []
    failures = work.trouble.still_committed(attempt.context.metadata.refresh())
    if not failures:
        return [UnitReport(name=work.name, outcome=Outcome.NOT_NEEDED, text=str(work.trouble))]
    return [failed_object(failure) for failure in failures]


def failed_object(failure: TaskFailure) -> UnitReport:
    assert failure.object_id is not None
    return UnitReport(name=object_name(failure.object_id), outcome=Outcome.FAILED, text=failure.reason)
