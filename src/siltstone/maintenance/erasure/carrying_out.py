"""What the engine has to know of an object that holds records of erased keys: its ids, its task, its commit.

The commit replaces the object by others of the same offsets. If another driver has replaced it first, with records of
the keys in its output, the next look finds these.
"""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from siltstone.carrying.committing import Standing, commit, prepare
from siltstone.carrying.engine import WorkKind
from siltstone.carrying.pipeline.kind import Attempt, Outcome, UnitReport, object_name
from siltstone.foundation.quantity_words import counted, size_words
from siltstone.maintenance.erasure.planning import StreamToErase
from siltstone.maintenance.erasure.task import run_erasure
from siltstone.maintenance.erasure.task_input import CODEC, ErasureInput, ErasureResult
from siltstone.maintenance.record_rewriting.values import SourceObject
from siltstone.metadata.commands import CommitCompaction, NewObject, PrepareObjects
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.lookup import committed_object
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import HOUR_MS
from siltstone.offline.output_buckets import OutputBuckets
from siltstone.offline.settings import KeyCompactionSettings
from siltstone.offline.tasks.runner import RunFailed

TIME_LIMIT_MS = 24 * HOUR_MS
"""Prepared ids are given up after it. An object of 10 GiB is written again in minutes, and at a set rate in hours."""

OVERTAKEN = "it was replaced or deleted meanwhile"


class ErasedSource(msgspec.Struct, frozen=True, kw_only=True):
    """An object that a look has found to hold records of the keys. ``erased``: how many of each erasure."""

    stream: StreamToErase
    source: SourceObject
    erased: tuple[int, ...]

    @property
    def name(self) -> str:
        return object_name(self.source.object_id)


class Rewriting:
    """An object that is being written again without the records. ``first_object_id`` is set when it is prepared."""

    first_object_id: int

    def __init__(self, wanted: ErasedSource, attempt: Attempt, given: ErasureInput) -> None:
        self.name = wanted.name
        self.trouble: SiltstoneError | None = None
        self._wanted = wanted
        self._attempt = attempt
        self._given = given
        self._result = ErasureResult()
        self._bucket_ids: dict[int, tuple[int, ...]] = {}

    @property
    def bucket_id(self) -> int:
        return self._given.output_bucket_id

    @property
    def object_count_max(self) -> int:
        return self._given.object_count_max

    @property
    def labels(self) -> Sequence[str]:
        return [self._wanted.stream.name]

    @property
    def data_bytes(self) -> int:
        return self._wanted.source.size_bytes

    def begin(self) -> None:
        self._given = msgspec.structs.replace(self._given, first_object_id=self.first_object_id)

    def inputs(self) -> Sequence[bytes]:
        return [CODEC.encode_input(self._given)]

    def take(self, answers: Sequence[bytes]) -> None:
        (answer,) = answers
        self._result = CODEC.decode_result(answer)
        if self._result.failure is not None:
            self.trouble = RunFailed(self._result.failure.reason)

    def complete(self) -> None:
        """The task has put whole objects."""

    @property
    def new_objects(self) -> Mapping[int, int]:
        return {each.object_id: each.size_bytes for each in self._result.objects}

    def place(self, standing: Mapping[int, Standing]) -> None:
        self._bucket_ids = {object_id: each.bucket_ids for object_id, each in standing.items()}

    def commit(self) -> None:
        context, source = self._attempt.context, self._wanted.source
        new = tuple(
            NewObject(each.object_id, each.size_bytes, (each.held,), self._bucket_ids[each.object_id])
            for each in self._result.objects
        )
        commit(context, CommitCompaction(self._attempt.job_id, (source.object_id,), None, new))

    def done(self) -> UnitReport:
        written = self._result.bytes_written
        return UnitReport(
            name=self.name,
            outcome=Outcome.DONE,
            text=f"{counted(sum(self._wanted.erased), 'record')} erased, {size_words(written)} written again",
            bytes_read=self._result.bytes_read,
            bytes_written=written,
            bytes_freed=max(0, self._wanted.source.size_bytes - written),
            objects_before=1,
            objects_after=len(self._result.objects),
            records_removed=sum(self._wanted.erased),
            peak_memory_bytes=self._result.peak_memory_bytes,
        )

    def abandon(self) -> None:
        """Nothing is open: what the task has put and nobody commits is left to the sweep."""


def rewritings(attempt: Attempt, settings: KeyCompactionSettings) -> WorkKind[ErasedSource, Rewriting]:
    outputs = OutputBuckets(attempt.context)

    def make(image: MetadataImage, wanted: Sequence[ErasedSource]) -> Callable[[ErasedSource], Rewriting]:
        def rewriting(each: ErasedSource) -> Rewriting:
            bucket_id = outputs.of_stream(each.stream.stream_id)
            given = input_of(attempt, each.stream, each.source, settings)
            count = max(1, -(-each.source.size_bytes // settings.object_bytes))
            urls = attempt.context.buckets.urls
            given = msgspec.structs.replace(
                given,
                object_count_max=count,
                output_bucket_id=bucket_id,
                bucket_urls={**given.bucket_urls, bucket_id: urls[bucket_id]},
            )
            return Rewriting(each, attempt, given)

        return rewriting

    return WorkKind(
        step="erase",
        task=run_erasure,
        stands=lambda image, each: committed_object(image, each.source.object_id) is not None,
        buckets=lambda each: {outputs.of_stream(each.stream.stream_id), *outputs.of_copies()},
        make=make,
        prepare=lambda works: _prepare(attempt, outputs, works),
        overtaken=OVERTAKEN,
    )


def input_of(
    attempt: Attempt, stream: StreamToErase, source: SourceObject, settings: KeyCompactionSettings
) -> ErasureInput:
    """Returns the input of a look at one object."""
    urls = attempt.context.buckets.urls
    return ErasureInput(
        stream_id=stream.stream_id,
        sources=(source,),
        erasures=stream.erasures,
        start_offset=stream.start_offset,
        read_request_bytes_max=settings.read_request_bytes_max,
        block_bytes=settings.block_bytes,
        object_bytes=settings.object_bytes,
        bucket_urls={each: urls[each] for each in source.bucket_ids},
    )


def _prepare(attempt: Attempt, outputs: OutputBuckets, works: Sequence[Rewriting]) -> None:
    """Prepares the ids of all works at once, each in the bucket of its work."""
    bucket_ids = tuple(work.bucket_id for work in works for _ in range(work.object_count_max))
    command = PrepareObjects(len(bucket_ids), TIME_LIMIT_MS, job_id=attempt.job_id, bucket_ids=bucket_ids)
    next_id = prepare(attempt.context, command, outputs)
    for work in works:
        work.first_object_id = next_id
        next_id += work.object_count_max
