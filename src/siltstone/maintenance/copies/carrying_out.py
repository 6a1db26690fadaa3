"""What the engine has to know of an object with too few copies: each copy is prepared in the metadata, made by a task,
and added by a command of its own.

A copy counts only once it is added, so no reader uses it before. If the object was destroyed meanwhile, the command is
refused and the copy is deleted at once (B26). After an unknown outcome the copy is left: the metadata has it as
prepared, so it is deleted with its object.
"""

import logging
from collections.abc import Callable, Mapping, Sequence

from siltstone.carrying.committing import Standing
from siltstone.carrying.engine import WorkKind
from siltstone.carrying.outcomes import ObjectCommit, settle
from siltstone.carrying.pipeline.kind import Attempt, Outcome, UnitReport
from siltstone.foundation.quantity_words import size_words
from siltstone.maintenance.copies.planning import ObjectShort
from siltstone.metadata.copies import AddCopies, PrepareCopies
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import committed_object
from siltstone.metadata.refusals import JobNotRunning, Refusal
from siltstone.model.errors import SiltstoneError
from siltstone.model.objects import object_key
from siltstone.offline.context import MaintenanceContext, check_may_write
from siltstone.offline.tasks.runner import RunFailed, failure_in_one_line
from siltstone.offline.tasks.whole_copies import CODEC, WholeCopyInput, WholeCopyResult, run_whole_copy
from siltstone.runtime.randomness import random_token

log = logging.getLogger(__name__)

OVERTAKEN = "it was replaced, trimmed or deleted meanwhile, or has the copy already"


class ObjectCopies:
    """The further copies of one object. ``targets`` are the buckets that still get one, ``failures`` says why others do
    not."""

    def __init__(self, attempt: Attempt, short: ObjectShort, image: MetadataImage) -> None:
        self.name = short.name
        self.metadata = committed_object(image, short.metadata.object_id) or short.metadata
        self.targets = list(short.targets)
        self.failures: list[str] = []
        self.trouble: SiltstoneError | None = None
        self.results: list[WholeCopyResult] = []
        self._attempt = attempt
        self._context = attempt.context

    @property
    def data_bytes(self) -> int:
        return self.metadata.size_bytes * len(self.targets)

    def fail(self, bucket_id: int, reason: str) -> None:
        self.targets.remove(bucket_id)
        self.failures.append(reason)

    def begin(self) -> None:
        """Nothing comes before the tasks."""

    def inputs(self) -> Sequence[bytes]:
        store = self._context.buckets.store
        return [
            CODEC.encode_input(
                WholeCopyInput(
                    object_id=self.metadata.object_id,
                    size_bytes=self.metadata.size_bytes,
                    sources=tuple((source, store(source).url) for source in self.metadata.bucket_ids),
                    target_url=store(bucket_id).url,
                )
            )
            for bucket_id in self.targets
        ]

    def take(self, answers: Sequence[bytes]) -> None:
        for bucket_id, answer in zip(tuple(self.targets), answers, strict=True):
            result = CODEC.decode_result(answer)
            if result.failure is not None:
                self.fail(bucket_id, result.failure.reason)
            else:
                self.results.append(result)

    def complete(self) -> None:
        if self.failures and not self.targets:
            raise RunFailed("; ".join(self.failures))

    @property
    def new_objects(self) -> Mapping[int, int]:
        return {}

    def place(self, standing: Mapping[int, Standing]) -> None:
        """There is no new object."""

    def commit(self) -> None:
        object_id = self.metadata.object_id
        for bucket_id in tuple(self.targets):
            command = AddCopies(self._attempt.job_id, (object_id,), bucket_id)
            about = f"the copy of object {object_id} in bucket {bucket_id}"
            discard = discarding(self._context, object_id, bucket_id)
            try:
                settle(self._context, ObjectCommit(command, about, discard))
            except JobNotRunning:
                raise
            except Refusal:
                self.targets.remove(bucket_id)

    def done(self) -> UnitReport:
        if self.failures:
            return UnitReport(name=self.name, outcome=Outcome.FAILED, text="; ".join(self.failures))
        if not self.targets:
            return UnitReport(name=self.name, outcome=Outcome.NOT_NEEDED, text=OVERTAKEN)
        where = " and ".join(map(str, self.targets))
        return UnitReport(
            name=self.name,
            outcome=Outcome.DONE,
            text=f"{size_words(self.metadata.size_bytes)} copied into bucket {where}",
            bytes_read=sum(each.bytes_read for each in self.results),
            bytes_written=sum(each.bytes_written for each in self.results),
            objects_before=1,
            objects_after=1,
            peak_memory_bytes=max(each.peak_memory_bytes for each in self.results),
        )

    def abandon(self) -> None:
        """A copy that was put is deleted with its object."""


def replications(attempt: Attempt) -> WorkKind[ObjectShort, ObjectCopies]:
    def make(image: MetadataImage, _: Sequence[ObjectShort]) -> Callable[[ObjectShort], ObjectCopies]:
        return lambda short: ObjectCopies(attempt, short, image)

    return WorkKind(
        step="copy",
        task=run_whole_copy,
        stands=lambda image, short: committed_object(image, short.metadata.object_id) is not None,
        buckets=lambda short: short.targets,
        some_buckets_suffice=True,
        make=make,
        prepare=lambda works: _prepare(attempt, works),
        overtaken=OVERTAKEN,
    )


def _prepare(attempt: Attempt, works: Sequence[ObjectCopies]) -> None:
    """Prepares the copies of all works, by one command for each bucket."""
    context = attempt.context
    for bucket_id in sorted({bucket_id for work in works for bucket_id in work.targets}):
        together = [work for work in works if bucket_id in work.targets]
        ids = tuple(work.metadata.object_id for work in together)
        try:
            check_may_write(context, bucket_id)
            context.buckets.probe(bucket_id, f"maintenance-{random_token(context.rng)}")
            allowed = context.metadata.execute(PrepareCopies(attempt.job_id, ids, bucket_id))
            guard = context.guard(bucket_id)
            if guard is not None:
                guard.cover(max(ids), 1, context.metadata.image)
        except JobNotRunning:
            raise
        except (SiltstoneError, Refusal) as trouble:
            for work in together:
                work.fail(bucket_id, failure_in_one_line(trouble))
        else:
            for work in together:
                if work.metadata.object_id not in allowed:
                    work.targets.remove(bucket_id)


def discarding(context: MaintenanceContext, object_id: int, bucket_id: int) -> Callable[[], None]:
    """Returns what deletes a copy whose object is gone: a sweep that deleted the object before the copy was put does
    not look for it again."""

    def discard() -> None:
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

    return discard
