"""Has the classes that Spark calls for writes: the driver's plan, the task that stages its rows, the driver's commit.

Spark makes a writer on the driver, pickles it for the tasks, and makes another one for the commit. So a task's plan is
a part of the writer, and everything that the commit needs is in the tasks' messages and in the metadata.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from siltstone.metadata.sinks import batch_folder
from siltstone.offline.context import MaintenanceContext
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import system_randomness
from siltstone.sinking.batch import SinkDriver
from siltstone.sinking.plan import decode_plan, encode_plan, plan_sink, value_encoding
from siltstone.sinking.staging import TaskReport, decode_report, encode_report, stage_rows
from siltstone.spark.sink.options import SinkPlace, SinkRequest
from siltstone.spark.task_attempt import freeze_heap

OpenSource = Callable[[SinkPlace], AbstractContextManager[MaintenanceContext]]

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


class StagedRows(WriterCommitMessage):  # type: ignore[misc]
    """A task's report, encoded."""

    def __init__(self, report: bytes) -> None:
        self.report = report


class _TopicWriter:
    """The part that both writers share."""

    def __init__(self, open_source: OpenSource, request: SinkRequest, schema: StructType) -> None:
        self._open_source = open_source
        self._request = request
        columns = [(field.name, field.dataType.simpleString()) for field in schema.fields]
        with open_source(request.place) as source:
            wish = request.encoding
            encoding = None if wish is None else value_encoding(wish, request.topic)
            plan = plan_sink(source, columns, request.topic, request.compression, encoding)
            self._plan = encode_plan(plan)

    def on_step(self, name: str) -> None:
        """Called after each step of a commit, with its name."""

    def _stage(self, rows: Iterator[Any], query_id: str, sink_id: str, batch_id: int) -> StagedRows:
        context = TaskContext.get()
        report = stage_rows(
            decode_plan(self._plan),
            rows,
            folder=batch_folder(sink_id, batch_id),
            task_number=context.partitionId() if context is not None else 0,
            query_id=query_id,
            clock=SystemClock(),
            rng=system_randomness(),
        )
        freeze_heap()
        return StagedRows(encode_report(report))

    def _end(
        self, messages: Sequence[Any], sink_id: str, query_id: str, batch_id: int, *, abort: bool
    ) -> None:
        with self._open_source(self._request.place) as source:
            driver = SinkDriver(
                source,
                decode_plan(self._plan),
                sink_id,
                self._request.bootstrap,
                self.on_step,
                mode=self._request.mode,
                transaction_timeout_ms=self._request.transaction_timeout_ms,
                is_nameless=self._request.is_nameless,
            )
            if abort:
                driver.abort(query_id, batch_id, _reports(messages))
            else:
                driver.commit(query_id, batch_id, _reports(messages))


class TopicWriter(_TopicWriter, DataSourceArrowWriter):  # type: ignore[misc]
    """Writes one DataFrame."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self._stage(iterator, *self._names)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        query_id, sink_id, batch_id = self._names
        self._end(messages, sink_id, query_id, batch_id, abort=False)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        query_id, sink_id, batch_id = self._names
        self._end(messages, sink_id, query_id, batch_id, abort=True)

    @property
    def _names(self) -> tuple[str, str, int]:
        request = self._request
        assert request.sink_id is not None and request.batch_id is not None
        return request.query_id, request.sink_id, request.batch_id


class TopicStreamWriter(_TopicWriter, DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Writes the batches of a query. The query's id comes with the tasks' messages; even an empty batch has a task."""

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        context = TaskContext.get()
        query_id = context.getLocalProperty(QUERY_ID) if context is not None else ""
        batch_id = context.getLocalProperty(BATCH_ID) if context is not None else "0"
        return self._stage(iterator, query_id, self._request.sink_id or query_id, int(batch_id or 0))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  Spark's name
        self._end_batch(messages, batchId, abort=False)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._end_batch(messages, batchId, abort=True)

    def _end_batch(self, messages: Sequence[Any], batch_id: int, *, abort: bool) -> None:
        query_id = next((report.query_id for report in _reports(messages)), "")
        sink_id = self._request.sink_id or query_id
        if sink_id:
            self._end(messages, sink_id, query_id, batch_id, abort=abort)


def _reports(messages: Sequence[Any]) -> list[TaskReport]:
    return [decode_report(message.report) for message in messages if message is not None]
