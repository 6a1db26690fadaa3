"""Carries out a wave of copies: each is prepared in the metadata, made by a task, and added by a command of its own.

A copy counts only once it is added, so no reader uses it before. If the object was destroyed meanwhile, the command is
refused and the copy is deleted at once (B26). After an unknown outcome the copy is left: the metadata have it as
prepared, so it is deleted with its object.
"""

import logging
from collections.abc import Iterator, Sequence

import msgspec

from siltstone.carrying.pipeline.kind import Attempt, Outcome, UnitReport
from siltstone.foundation.quantity_words import size_words
from siltstone.maintenance.copies.planning import ObjectShort
from siltstone.metadata.copies import AddCopies, PrepareCopies
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.lookup import committed_object
from siltstone.metadata.refusals import JobNotRunning, Refusal
from siltstone.model.errors import SiltstoneError, Unavailable
from siltstone.model.objects import object_key
from siltstone.offline.context import MaintenanceContext, check_may_write
from siltstone.offline.tasks.runner import RunFailed, failure_in_one_line
from siltstone.offline.tasks.whole_copies import CODEC, WholeCopyInput, WholeCopyResult, run_whole_copy
from siltstone.runtime.randomness import random_token

log = logging.getLogger(__name__)

UNKNOWN = "the outcome of the command that adds the copy is not known: {trouble}"
OVERTAKEN = "it was replaced, trimmed or deleted meanwhile, or has the copy already"


class _Copy(msgspec.Struct):
    """One copy that is to be made."""

    unit: str
    metadata: ObjectMetadata
    bucket_id: int
    failure: str = ""
    is_overtaken: bool = False
    result: WholeCopyResult = WholeCopyResult()


class CopyWave:
    """Carries out one wave."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._context = attempt.context

    def carry_out(self, wanted: Sequence[ObjectShort]) -> Iterator[UnitReport]:
        """Yields a report for each object. Raises Cancelled, JobNotRunning, and Unavailable when the metadata cannot be
        reached."""
        copies = [_Copy(each.name, each.metadata, target) for each in wanted for target in each.targets]
        self._prepare(copies)
        self._run([each for each in copies if not (each.failure or each.is_overtaken)])
        self._add_all([each for each in copies if not (each.failure or each.is_overtaken)])
        for short in wanted:
            yield _report(short, [each for each in copies if each.unit == short.name])

    def _prepare(self, copies: Sequence[_Copy]) -> None:
        image = self._context.metadata.refresh()
        for bucket_id in sorted({each.bucket_id for each in copies}):
            together = [each for each in copies if each.bucket_id == bucket_id]
            ids = tuple(each.metadata.object_id for each in together)
            try:
                check_may_write(self._context, bucket_id)
                self._context.buckets.probe(bucket_id, f"maintenance-{random_token(self._context.rng)}")
                command = PrepareCopies(self._attempt.job_id, ids, bucket_id)
                allowed: tuple[int, ...] = self._context.metadata.execute(command)
                guard = self._context.guard(bucket_id)
                if guard is not None:
                    guard.cover(max(ids), 1, self._context.metadata.image)
            except JobNotRunning:
                raise
            except (SiltstoneError, Refusal) as trouble:
                for each in together:
                    each.failure = failure_in_one_line(trouble)
                continue
            for each in together:
                each.is_overtaken = each.metadata.object_id not in allowed
                each.metadata = committed_object(image, each.metadata.object_id) or each.metadata

    def _run(self, copies: Sequence[_Copy]) -> None:
        if not copies:
            return
        store = self._context.buckets.store
        inputs = [
            CODEC.encode_input(
                WholeCopyInput(
                    object_id=each.metadata.object_id,
                    size_bytes=each.metadata.size_bytes,
                    sources=tuple((source, store(source).url) for source in each.metadata.bucket_ids),
                    target_url=store(each.bucket_id).url,
                )
            )
            for each in copies
        ]
        report_progress = self._attempt.watch.steps("copy", sum(each.metadata.size_bytes for each in copies))
        label = self._attempt.label([each.unit for each in copies])
        try:
            answers = self._attempt.start_runner().run(run_whole_copy, inputs, report_progress, label)
        except RunFailed as failure:
            self._attempt.watch.check()  # a failure after a cancellation is not the fault of the objects
            for each in copies:
                each.failure = str(failure)
            return
        for each, answer in zip(copies, answers, strict=True):
            each.result = CODEC.decode_result(answer)
            if each.result.failure is not None:
                each.failure = each.result.failure.reason

    def _add_all(self, copies: Sequence[_Copy]) -> None:
        """Adds all copies of a bucket by one command. If the command is refused because of some of them, each copy is
        added by a command of its own."""
        for bucket_id in sorted({each.bucket_id for each in copies}):
            together = [each for each in copies if each.bucket_id == bucket_id]
            ids = tuple(each.metadata.object_id for each in together)
            try:
                self._context.metadata.execute(AddCopies(self._attempt.job_id, ids, bucket_id))
            except JobNotRunning:
                raise
            except Refusal:
                for each in together:
                    self._add(each)
            except Unavailable as trouble:
                for each in together:
                    each.failure = UNKNOWN.format(trouble=trouble)

    def _add(self, each: _Copy) -> None:
        object_id = each.metadata.object_id
        try:
            self._context.metadata.execute(AddCopies(self._attempt.job_id, (object_id,), each.bucket_id))
        except JobNotRunning:
            raise
        except Refusal:
            each.is_overtaken = True
            delete_refused_copy(self._context, object_id, each.bucket_id)
        except Unavailable as trouble:
            each.failure = UNKNOWN.format(trouble=trouble)


def delete_refused_copy(context: MaintenanceContext, object_id: int, bucket_id: int) -> None:
    """Deletes a copy whose object is gone: a sweep that deleted the object before the copy was put does not look for it
    again."""
    if committed_object(context.metadata.refresh(), object_id) is not None:
        return
    try:
        check_may_write(context, bucket_id)
        context.buckets.store(bucket_id).delete([object_key(object_id)])
    except SiltstoneError as trouble:
        log.warning(
            "the copy of object %d in bucket %d, which is not needed any more, could not be deleted: %s; siltstone "
            "check --repair deletes it",
            object_id, bucket_id, trouble,
        )  # fmt: skip


def _report(short: ObjectShort, copies: Sequence[_Copy]) -> UnitReport:
    failures = [each.failure for each in copies if each.failure]
    made = [each for each in copies if not (each.failure or each.is_overtaken)]
    if failures:
        return UnitReport(name=short.name, outcome=Outcome.FAILED, text="; ".join(failures))
    if not made:
        return UnitReport(name=short.name, outcome=Outcome.NOT_NEEDED, text=OVERTAKEN)
    where = " and ".join(str(each.bucket_id) for each in made)
    return UnitReport(
        name=short.name,
        outcome=Outcome.DONE,
        text=f"{size_words(short.metadata.size_bytes)} copied into bucket {where}",
        bytes_read=sum(each.result.bytes_read for each in made),
        bytes_written=sum(each.result.bytes_written for each in made),
        objects_before=1,
        objects_after=1,
        peak_memory_bytes=max(each.result.peak_memory_bytes for each in made),
    )
