"""The reader that Spark calls for a streaming query: dicts and limits of Spark's ⇄ positions and limits of a
``StreamOfTopics``, which does the rest.

Spark makes the reader in three kinds of process: one lives as long as the query and asks for offsets and partitions,
others read a partition each and never ask. So the store is opened when offsets are asked for the first time, and
everything that tasks need is in the partitions.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from siltstone.offline.context import MaintenanceContext
from siltstone.scanning.rows import unit_rows
from siltstone.scanning.streaming.advancing import BatchLimit, LimitKind
from siltstone.scanning.streaming.position import decode_position, encode_position
from siltstone.scanning.streaming.query_names import QueryQuestion, StreamQuery, answer
from siltstone.scanning.streaming.topic_stream import StreamOfTopics
from siltstone.scanning.unit import decode_unit, encode_unit
from siltstone.spark.client_options import BY_ENVIRONMENT, ClientChoice, logins_explained
from siltstone.spark.source.lag import BACKLOG
from siltstone.spark.source.options import SourceRequest
from siltstone.spark.source.stream_options import StreamSourceRequest
from siltstone.spark.task_attempt import freeze_heap

Offsets = dict[str, Any]

QUERY_ID, DESCRIPTION = "sql.streaming.queryId", "spark.job.description"
"""Properties of a job that Spark runs for a micro-batch. The description has the name of the query in its first line,
which is empty if it has none, and then ``id = …``, ``runId = …`` and ``batch = …``."""


class StreamPartition(InputPartition):  # type: ignore[misc]
    """One scan unit, encoded, and what its task is asked."""

    def __init__(self, unit: bytes, question: QueryQuestion | None) -> None:
        super().__init__(unit)
        self.question = question


def query_of_task() -> StreamQuery | None:
    """Returns the query to which the task of this process belongs, as Spark describes the job; None if it says nothing
    about a query."""
    task = TaskContext.get()
    query_id = None if task is None else task.getLocalProperty(QUERY_ID)
    if not query_id:
        return None
    name, mark, _ = (task.getLocalProperty(DESCRIPTION) or "").partition(f"\nid = {query_id}\n")
    return StreamQuery(name.strip() if mark else "", query_id)


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    def __init__(
        self,
        open_source: Callable[[SourceRequest], AbstractContextManager[MaintenanceContext]],
        options: StreamSourceRequest,
        client: ClientChoice = BY_ENVIRONMENT,
    ) -> None:
        self._client = client
        self._open_source = open_source
        self._options = options
        self._stream: StreamOfTopics | None = None

    def __getstate__(self) -> dict[str, Any]:
        """A task gets no options: only how to connect."""
        return {**self.__dict__, "_open_source": None, "_options": None, "_stream": None}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  Spark's name
        self._followed.fix_ends()

    def initialOffset(self) -> Offsets:  # noqa: N802
        return encode_position(self._followed.initial())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        limit = self._options.limit
        match limit.kind:
            case LimitKind.OFFSETS:
                return ReadMaxRows(limit.count)
            case LimitKind.BYTES:
                return ReadMaxBytes(limit.count)
        return ReadAllAvailable()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        with logins_explained(self._client):
            return encode_position(self._followed.latest(decode_position(start), batch_limit(limit)))

    def reportLatestOffset(self) -> Offsets | None:  # noqa: N802
        """Returns what a report of progress shows as the latest offset, which no checkpoint keeps: so the lag is there,
        too, because a source in Python has no metrics."""
        newest = self._followed.newest()
        if newest is None:
            return None
        found = self._followed.lag()
        shown = {"records": found.records, "bytes": found.size_bytes, "seconds": round(found.seconds, 3)}
        return encode_position(newest) | {BACKLOG: shown}

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        with logins_explained(self._client):
            units = self._followed.plan(decode_position(start), decode_position(end))
        question = self._followed.question(units)
        return [
            StreamPartition(encode_unit(unit), question if number == 0 else None)
            for number, unit in enumerate(units)
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if partition is not None and partition.value is not None:
            if (question := partition.question) is not None and (query := query_of_task()) is not None:
                answer(question, query)
            unit = decode_unit(partition.value)
            security = self._client.security() if unit.tail_pieces else None
            with logins_explained(self._client):
                yield from unit_rows(unit, security=security)
        freeze_heap()

    def commit(self, end: Offsets) -> None:
        self._followed.finished(decode_position(end))

    def stop(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    @property
    def _followed(self) -> StreamOfTopics:
        if self._stream is None:
            self._stream = StreamOfTopics(
                lambda: self._open_source(self._options.source), self._options.stream
            )
        return self._stream


def batch_limit(limit: ReadLimit) -> BatchLimit:
    """Returns the limit that Spark gives, which overrides that of the options: Trigger.Once reads all there is."""
    if isinstance(limit, ReadMaxRows):
        return BatchLimit(LimitKind.OFFSETS, limit.max_rows)
    if isinstance(limit, ReadMaxBytes):
        return BatchLimit(LimitKind.BYTES, limit.max_bytes)
    return BatchLimit()
