"""Carries out a compaction plan: ids are prepared, a multipart upload is started, the iterations run as tasks, and
one commit replaces the sources.

Until the commit nothing has changed for any reader. A driver may be killed at any point: the sweep deletes the objects
that the driver prepared when their time limit has passed. Tasks may outlive the driver; they write what was planned,
under ids that only this plan uses.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import overload

import msgspec

from siltstone.carrying.committing import check_sources, commit, prepare, with_copies
from siltstone.carrying.pipeline.kind import Attempt, object_name
from siltstone.maintenance.stream_set_compaction.plan import CompactionPlan
from siltstone.maintenance.stream_set_compaction.task import run_iteration
from siltstone.maintenance.stream_set_compaction.task_input import CODEC, IterationInput, IterationResult
from siltstone.metadata.commands import CommitCompaction, PrepareObjects
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import committed_object
from siltstone.model.errors import CorruptData, SiltstoneError
from siltstone.model.objects import DEFAULT_BUCKET_ID, object_key
from siltstone.object_store.port import MultipartUpload, ObjectStore
from siltstone.offline.context import check_may_write
from siltstone.offline.output_buckets import OutputBuckets
from siltstone.offline.tasks.runner import TaskFailure


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


class RoundOutcome(msgspec.Struct, frozen=True):
    """``bytes_after`` is the size of all new objects. ``first_object_id`` is 0 when there are none."""

    results: list[IterationResult]
    first_object_id: int
    bytes_after: int


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
    """One round: stream set objects that are replaced together, by one plan and one commit."""

    def __init__(self, attempt: Attempt, plan: CompactionPlan) -> None:
        self._attempt = attempt
        self._context = attempt.context
        self._plan = plan
        self._outputs = OutputBuckets(attempt.context)
        self._set_bucket_id = DEFAULT_BUCKET_ID
        self._bucket_ids: list[int] = []

    def carry_out(self) -> RoundOutcome:
        """Carries out the round. Raises SourcesUnusable, RunFailed, Cancelled, the Refusal of the commit,
        CompactionOutcomeUnknown, and what the metadata raises. Whatever is raised, readers still find the old
        objects."""
        context, plan = self._context, self._plan
        self._set_bucket_id = self._outputs.of_set()
        self._bucket_ids = [self._outputs.of_stream(stream_id) for stream_id in plan.stream_of_pieces]
        for bucket_id in sorted({self._set_bucket_id, *self._bucket_ids}):
            check_may_write(context, bucket_id)
        store = context.buckets.store(self._set_bucket_id)
        # The plan is older than the job: another driver may have compacted objects in between.
        check_sources(context.metadata.refresh(), plan.compacted_ids)
        first_object_id = self._prepare()
        results = self._rewrite(store, first_object_id)
        sets, stream_objects = plan.new_objects(first_object_id)
        new = with_copies(self._attempt, (*((sets,) if sets else ()), *stream_objects))
        command = CommitCompaction(
            self._attempt.job_id, plan.compacted_ids, new[0] if sets else None, new[1:] if sets else new
        )
        written = sum(result.part.size_bytes for result in results if result.part is not None)
        assert sets is None or written == sets.size_bytes, f"{written} bytes written of {sets.size_bytes}"
        commit(context, command)
        bytes_after = sum(each.size_bytes for each in (*stream_objects, *((sets,) if sets else ())))
        return RoundOutcome(results, first_object_id, bytes_after)

    def _prepare(self) -> int:
        count = self._plan.object_count
        if not count:
            return 0
        time_limit_ms = self._plan.settings.time_limit_ms
        sets = (self._set_bucket_id,) * self._plan.has_stream_set_object
        command = PrepareObjects(
            count, time_limit_ms, job_id=self._attempt.job_id, bucket_ids=(*sets, *self._bucket_ids)
        )
        return prepare(self._context, command, self._outputs)

    def _rewrite(self, store: ObjectStore, first_object_id: int) -> list[IterationResult]:
        upload = (
            store.start_multipart(object_key(first_object_id)) if self._plan.has_stream_set_object else None
        )
        try:
            results = self._run(first_object_id, upload)
            if upload is not None:
                parts = [result.part for result in results if result.part is not None]
                store.complete_multipart(upload, parts)
            return results
        except BaseException:
            # Nothing was committed, so the upload is aborted, and late attempts of tasks fail. Objects are left to
            # the sweep: attempts that still run could put them again after they were deleted.
            if upload is not None:
                _abort(store, upload)
            raise

    def _run(self, first_object_id: int, upload: MultipartUpload | None) -> list[IterationResult]:
        inputs = TaskInputs(len(self._plan.bounds), lambda at: self._input(at, first_object_id, upload))
        report_progress = self._attempt.watch.steps("rewrite", self._plan.live_bytes)
        label = self._attempt.label([object_name(each) for each in self._plan.compacted_ids])
        answers = self._attempt.start_runner().run(run_iteration, inputs, report_progress, label)
        results = [CODEC.decode_result(answer) for answer in answers]
        if failures := [result.failure for result in results if result.failure is not None]:
            raise SourcesUnusable(failures)
        return results

    def _input(self, at: int, first_object_id: int, upload: MultipartUpload | None) -> IterationInput:
        iteration = self._plan.iteration(at)
        first = self._plan.has_stream_set_object
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
            first_object_id=first_object_id,
            upload=upload,
        )


def _abort(store: ObjectStore, upload: MultipartUpload) -> None:
    with suppress(SiltstoneError):
        store.abort_multipart(upload)
