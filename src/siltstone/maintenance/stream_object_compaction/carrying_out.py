"""Carries out a wave: several merge groups in one run of tasks, each with an object and a commit of its own.

Until a group's commit nothing has changed for any reader. A failure of one group aborts its upload and becomes its
report; the other groups are not affected. When the runner itself fails, it does not say which group is to blame, so
each group is then tried alone.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Protocol

import msgspec

from siltstone.carrying.committing import commit, copy_outputs, prepare
from siltstone.carrying.pipeline.kind import Attempt, Outcome, UnitReport
from siltstone.foundation.quantity_words import counted, size_words
from siltstone.maintenance.stream_object_compaction.merge import CopiedPart, Merge, Part, ReadPart, plan_merge
from siltstone.maintenance.stream_object_compaction.planning import held_by
from siltstone.maintenance.stream_object_compaction.task import run_copies
from siltstone.maintenance.stream_object_compaction.task_input import CODEC, CopyInput, CopyResult
from siltstone.metadata.commands import CommitCompaction, NewObject, PrepareObjects
from siltstone.metadata.entities import ObjectMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import committed_object
from siltstone.metadata.refusals import CompactedObjectsNotFound, JobNotRunning, Refusal
from siltstone.metadata.streams import is_live
from siltstone.model.errors import CorruptData, SiltstoneError
from siltstone.model.objects import object_key
from siltstone.object_store.port import MultipartUpload, ObjectStore, UploadedPart
from siltstone.offline.blocks.columns import LeftOut, Source
from siltstone.offline.blocks.indexes import read_indexes
from siltstone.offline.output_buckets import OutputBuckets, TooFewBuckets, why_not_writable
from siltstone.offline.settings import StreamObjectCompactionSettings
from siltstone.offline.tasks.runner import RunFailed, failure_in_one_line

PARTS_PER_TASK = 16
"""A task costs some ten milliseconds to start. This many parts are seconds of work, and a large object still makes
several tasks."""


class Group(Protocol):
    """The objects that become one: the neighbours of a merge group, or one object that is relocated."""

    @property
    def name(self) -> str: ...

    @property
    def members(self) -> Sequence[ObjectMetadata]: ...

    @property
    def bucket_id(self) -> int:
        """The bucket of the members."""
        ...


class Merging:
    """A merge that is being carried out, with its prepared object id and the results of its tasks. ``upload`` is None
    before the upload is started, when none is needed, and once it is completed."""

    def __init__(self, group: Group, merge: Merge, object_id: int, store: ObjectStore) -> None:
        self.group = group
        self.merge = merge
        self.object_id = object_id
        self.store = store
        self.upload: MultipartUpload | None = None
        self.failure = ""
        self.source_url = ""
        """The URL of the bucket of the sources, if they are not in the bucket of the object."""
        self.copies: tuple[tuple[tuple[int, str], ...], ...] = ()
        """The places of each source, if any source is in several buckets."""
        self.bucket_ids: tuple[int, ...] = ()
        """The buckets in which the object is, once it is copied into all of them."""
        self.results: list[CopyResult] = []

    @property
    def key(self) -> str:
        return object_key(self.object_id)

    def start(self) -> None:
        if not self.merge.is_put:
            self.upload = self.store.start_multipart(self.key)

    def inputs(self, number: int, read_request_bytes_max: int) -> Iterator[CopyInput]:
        parts = self.merge.parts
        for first in range(0, len(parts), PARTS_PER_TASK):
            copied, read, blocks = self._shared_out(parts[first : first + PARTS_PER_TASK])
            yield CopyInput(
                number=number,
                bucket_url=self.store.url,
                key=self.key,
                upload=self.upload,
                source_ids=self.merge.source_ids,
                blocks=blocks,
                copied=copied,
                read=read,
                read_request_bytes_max=read_request_bytes_max,
                source_url=self.source_url,
                copies=self.copies,
            )

    def take(self, result: CopyResult) -> None:
        self.results.append(result)
        if result.failure is not None:
            self.failure = self.failure or result.failure.reason

    def complete(self) -> None:
        """Completes the upload, which makes the object. Raises what the store raises."""
        sent = sorted((part for result in self.results for part in result.parts), key=_number)
        expected = [
            (part.part_number, part.position, self.merge.part_bytes(part)) for part in self.merge.parts
        ]
        assert [(each.part_number, each.position, each.size_bytes) for each in sent] == expected
        if self.upload is not None:
            self.store.complete_multipart(self.upload, sent)
            self.upload = None

    def command(self, job_id: int) -> CommitCompaction:
        return CommitCompaction(job_id, self.merge.source_ids, None, (self.new_object(),))

    def new_object(self) -> NewObject:
        return msgspec.structs.replace(self.merge.new_object(self.object_id), bucket_ids=self.bucket_ids)

    def done(self) -> UnitReport:
        merge, results = self.merge, self.results
        objects = counted(len(merge.sources), "stream object")
        copied = sum(result.bytes_copied for result in results)
        return UnitReport(
            name=self.group.name,
            outcome=Outcome.DONE,
            text=f"{objects} became one, {size_words(merge.size_bytes)}; {size_words(copied)} copied inside the store",
            bytes_read=sum(result.bytes_read for result in results),
            bytes_written=sum(result.bytes_written for result in results),
            bytes_freed=merge.bytes_freed,
            objects_before=len(merge.sources),
            objects_after=1,
            peak_memory_bytes=max(result.peak_memory_bytes for result in results),
        )

    def _shared_out(
        self, parts: tuple[Part, ...]
    ) -> tuple[tuple[CopiedPart, ...], tuple[ReadPart, ...], bytes]:
        """Returns the parts of one task: those to copy, those to read, and the blocks that the parts to read consist
        of."""
        blocks: list[bytes] = []
        read: list[ReadPart] = []
        first = 0
        for part in parts:
            if isinstance(part, ReadPart):
                end = first + part.end_block - part.first_block
                read.append(msgspec.structs.replace(part, first_block=first, end_block=end))
                blocks.append(self.merge.blocks_of(part).tobytes())
                first = end
        copied = tuple(part for part in parts if isinstance(part, CopiedPart))
        return copied, tuple(read), b"".join(blocks)


def _number(part: UploadedPart) -> int:
    return part.part_number


REQUESTS_SIDE_BY_SIDE = 16
"""This many uploads are started or completed at a time; each is one small request."""

OVERTAKEN = "its objects were replaced, trimmed or deleted meanwhile"


class PlannedMerge(msgspec.Struct, frozen=True):
    group: Group
    merge: Merge


class Wave:
    """Carries out waves of merge groups, one at a time."""

    def __init__(self, attempt: Attempt, settings: StreamObjectCompactionSettings) -> None:
        self._attempt = attempt
        self._context = attempt.context
        self._watch = attempt.watch
        self._settings = settings
        self._outputs = OutputBuckets(attempt.context)

    def carry_out(self, groups: Sequence[Group]) -> Iterator[UnitReport]:
        """Yields a report for each merge group. Raises Cancelled, JobNotRunning, and Unavailable when the metadata
        cannot be reached."""
        planned: list[PlannedMerge] = []
        for outcome in self._plan(groups):
            if isinstance(outcome, UnitReport):
                yield outcome
            else:
                planned.append(outcome)
        if not planned:
            return
        mergings = self._prepare(planned)
        with _uploads_ended(mergings):
            try:
                self._run(mergings)
            except RunFailed as failure:
                self._watch.check()  # a failure after a cancellation is not the fault of the objects
                if len(mergings) == 1:
                    yield self._failed(mergings[0].group, str(failure))
                    return
            else:
                yield from self._commit_each(mergings)
                return
        for merging in mergings:
            yield from self.carry_out([merging.group])

    def _plan(self, groups: Sequence[Group]) -> Iterator[UnitReport | PlannedMerge]:
        """Plans the merge of each group by the newest image. A group that cannot or need not be merged gets its report
        instead."""
        image = self._context.metadata.refresh()
        members = [member for group in groups if self._stands(image, group) for member in group.members]
        sources, left_out = read_indexes(self._context.buckets, members, self._watch.steps("read indexes"))
        troubles = self._check_writable(groups)
        read: dict[int, Source | LeftOut] = {source.metadata.object_id: source for source in sources}
        read |= {each.object_id: each for each in left_out}
        for group in groups:
            if not self._stands(image, group):
                yield _overtaken(group)
            elif (trouble := troubles.get(group.bucket_id)) is not None:
                yield self._failed(group, trouble)
            else:
                yield self._merge(image, group, [read[member.object_id] for member in group.members])

    def _merge(
        self, image: MetadataImage, group: Group, read: Sequence[Source | LeftOut]
    ) -> UnitReport | PlannedMerge:
        sources = [each for each in read if isinstance(each, Source)]
        for each in read:
            if isinstance(each, LeftOut):
                return self._failed(group, f"object {each.object_id}: {each.reason}")
        try:
            return PlannedMerge(group, plan_merge(sources, image.streams, self._settings))
        except CorruptData as damage:
            return self._failed(group, str(damage))

    def _prepare(self, planned: Sequence[PlannedMerge]) -> list[Merging]:
        """Prepares an object for each group in the bucket of its sources, because a store copies within one bucket."""
        command = PrepareObjects(
            len(planned),
            self._settings.time_limit_ms,
            job_id=self._attempt.job_id,
            bucket_ids=tuple(each.group.bucket_id for each in planned),
        )
        first_id = prepare(self._context, command, self._outputs)
        stores = [self._context.buckets.store(each.group.bucket_id) for each in planned]
        mergings = [
            Merging(each.group, each.merge, first_id + at, store)
            for at, (each, store) in enumerate(zip(planned, stores, strict=True))
        ]
        for merging in mergings:
            merging.copies = self._copies_of(merging.group)
        return mergings

    def _copies_of(self, group: Group) -> tuple[tuple[tuple[int, str], ...], ...]:
        if not any(member.copies for member in group.members):
            return ()
        store = self._context.buckets.store
        return tuple(tuple((each, store(each).url) for each in member.bucket_ids) for member in group.members)

    def _run(self, mergings: Sequence[Merging]) -> None:
        """Starts the uploads, runs the tasks and completes the uploads. Raises RunFailed, Cancelled."""
        _side_by_side(Merging.start, mergings)
        inputs = [
            CODEC.encode_input(given)
            for number, merging in enumerate(mergings)
            if not merging.failure
            for given in merging.inputs(number, self._settings.read_request_bytes_max)
        ]
        report_progress = self._watch.steps("copy", sum(merging.merge.data_bytes for merging in mergings))
        answers: list[bytes] = []
        if inputs:
            label = self._attempt.label([merging.group.name for merging in mergings])
            answers = self._attempt.start_runner().run(run_copies, inputs, report_progress, label)
        for answer in answers:
            result = CODEC.decode_result(answer)
            mergings[result.number].take(result)
        _side_by_side(Merging.complete, mergings)
        complete = {each.object_id: each for each in mergings if not each.failure}
        sizes = {object_id: each.merge.size_bytes for object_id, each in complete.items()}
        for object_id, standing in copy_outputs(self._attempt, sizes).items():
            complete[object_id].bucket_ids = standing.bucket_ids
            complete[object_id].failure = standing.failure

    def _commit_each(self, mergings: Sequence[Merging]) -> Iterator[UnitReport]:
        for done, merging in enumerate(mergings, start=1):
            yield self._committed(merging)
            if done < len(mergings):
                self._watch.report("commit", done, len(mergings))

    def _committed(self, merging: Merging) -> UnitReport:
        if merging.failure:
            return self._failed(merging.group, merging.failure)
        try:
            commit(self._context, merging.command(self._attempt.job_id))
        except JobNotRunning:
            raise
        except CompactedObjectsNotFound:
            return _overtaken(merging.group)
        except Refusal as refused:
            return self._failed(merging.group, failure_in_one_line(refused))
        return merging.done()

    def _check_writable(self, groups: Sequence[Group]) -> dict[int, str]:
        """Returns bucket id → why nothing may be written there."""
        bucket_ids = {group.bucket_id for group in groups}
        try:
            self._outputs.of_copies()
        except TooFewBuckets as trouble:
            return dict.fromkeys(bucket_ids, str(trouble))
        return why_not_writable(self._context, bucket_ids)

    def _stands(self, image: MetadataImage, group: Group) -> bool:
        """Returns whether all members are still committed and live. A member that was trimmed meanwhile is left to
        ``dead-objects``, and the other members become another group in the next plan."""
        return all(
            is_live(image.streams.get(held_by(member).stream_id), held_by(member))
            and committed_object(image, member.object_id) is not None
            for member in group.members
        )

    def _failed(self, group: Group, reason: str) -> UnitReport:
        """Makes the report of a group that failed; NOT_NEEDED when its objects were replaced meanwhile, since that may
        be the cause."""
        if not self._stands(self._context.metadata.refresh(), group):
            return _overtaken(group)
        return UnitReport(name=group.name, outcome=Outcome.FAILED, text=reason)


def _overtaken(group: Group) -> UnitReport:
    return UnitReport(name=group.name, outcome=Outcome.NOT_NEEDED, text=OVERTAKEN)


def _side_by_side(step: Callable[[Merging], None], mergings: Sequence[Merging]) -> None:
    """Does a step of all merges that have not failed. A failure is noted in its merge, and the others continue."""

    def attempt(merging: Merging) -> None:
        try:
            step(merging)
        except SiltstoneError as failure:
            merging.failure = failure_in_one_line(failure)

    with ThreadPoolExecutor(REQUESTS_SIDE_BY_SIDE, thread_name_prefix="merge") as pool:
        list(pool.map(attempt, [merging for merging in mergings if not merging.failure]))


@contextmanager
def _uploads_ended(mergings: Sequence[Merging]) -> Iterator[None]:
    """At the end of the ``with`` block, aborts the uploads that were not completed; tasks that are still running then
    fail. Objects that were put are left to the sweep, because a task that still runs could put them again after a
    deletion.
    """
    try:
        yield
    finally:
        for merging in mergings:
            if merging.upload is not None:
                with suppress(SiltstoneError):
                    merging.store.abort_multipart(merging.upload)
