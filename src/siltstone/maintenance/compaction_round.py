"""Carrying out a plan: ids, upload, iterations on the runner, one commit."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import overload

import msgspec

from siltstone.maintenance.bucket_owner import refuse_bucket_of_another_store
from siltstone.maintenance.committing import check_sources, commit
from siltstone.maintenance.context import MaintenanceContext
from siltstone.maintenance.planning.plan import CompactionPlan
from siltstone.maintenance.report import OnProgress, tell_step
from siltstone.maintenance.rewriting.run import run_iteration
from siltstone.maintenance.rewriting.unit import IterationResult, IterationUnit, decode_result, encode_unit
from siltstone.maintenance.runner import Runner
from siltstone.metadata.commands import CommitCompaction, PrepareObjects
from siltstone.model.errors import SiltstoneError
from siltstone.model.objects import object_key
from siltstone.object_store.port import MultipartUpload, ObjectStore


class RoundOutcome(msgspec.Struct, frozen=True):
    results: list[IterationResult]
    first_object_id: int
    bytes_after: int


class Units(Sequence[bytes]):
    """The units of a plan, each made when it is asked for: together they would hold all index entries once more."""

    def __init__(self, count: int, make: Callable[[int], IterationUnit]) -> None:
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
            return [encode_unit(self._make(number)) for number in numbers]
        return encode_unit(self._make(numbers))


class CompactionRound:
    def __init__(
        self,
        context: MaintenanceContext,
        runner: Runner,
        plan: CompactionPlan,
        job_id: int,
        on_progress: OnProgress | None,
    ) -> None:
        self._context = context
        self._runner = runner
        self._plan = plan
        self._job_id = job_id
        self._on_progress = on_progress
        self._bucket_id = context.buckets.default_bucket_id

    def carry_out(self) -> RoundOutcome:
        context, plan = self._context, self._plan
        refuse_bucket_of_another_store(context, self._bucket_id)
        store = context.buckets.store(self._bucket_id)
        # The plan is older than the job: another driver may have been at work in between.
        check_sources(context.metadata.refresh(), plan.compacted_ids)
        first_object_id = self._prepare()
        results = self._rewrite(store, first_object_id)
        sets, stream_objects = plan.new_objects(first_object_id)
        command = CommitCompaction(self._job_id, plan.compacted_ids, sets, stream_objects)
        written = sum(result.part.size_bytes for result in results if result.part is not None)
        assert sets is None or written == sets.size_bytes, f"{written} bytes written of {sets.size_bytes}"
        commit(context, command, store)
        tell_step("commit", self._on_progress)(1, 1)
        bytes_after = sum(each.size_bytes for each in (*stream_objects, *((sets,) if sets else ())))
        return RoundOutcome(results, first_object_id, bytes_after)

    def _prepare(self) -> int:
        if not self._plan.object_count:
            return 0
        settings = self._plan.settings
        return self._context.metadata.execute(
            PrepareObjects(
                self._plan.object_count, settings.time_limit_ms, self._bucket_id, job_id=self._job_id
            )
        )

    def _rewrite(self, store: ObjectStore, first_object_id: int) -> list[IterationResult]:
        upload = (
            store.start_multipart(object_key(first_object_id)) if self._plan.has_stream_set_object else None
        )
        try:
            units = Units(len(self._plan.bounds), lambda at: self._unit(at, first_object_id, upload))
            told = tell_step("rewrite", self._on_progress)
            results = [decode_result(each) for each in self._runner.run(run_iteration, units, told)]
            if upload is not None:
                parts = [result.part for result in results if result.part is not None]
                store.complete_multipart(upload, parts)
            return results
        except BaseException:
            # Nothing was committed, so nobody needs the upload, and late attempts find it ended. Objects are left to
            # the sweep: attempts that still run could put them again after they were deleted.
            if upload is not None:
                _abort(store, upload)
            raise

    def _unit(self, at: int, first_object_id: int, upload: MultipartUpload | None) -> IterationUnit:
        iteration = self._plan.iteration(at)
        bucket_ids = {self._bucket_id, *(source.bucket_id for source in iteration.sources)}
        urls = self._context.buckets.urls
        return IterationUnit(
            iteration=iteration,
            bucket_urls={bucket_id: urls[bucket_id] for bucket_id in bucket_ids},
            output_bucket_id=self._bucket_id,
            first_object_id=first_object_id,
            upload=upload,
        )


def _abort(store: ObjectStore, upload: MultipartUpload) -> None:
    with suppress(SiltstoneError):
        store.abort_multipart(upload)
