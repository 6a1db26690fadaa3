"""Appends records to the log of a coordinator, and sends each answer when the records before it are durable.

One append runs at a time; records that are added meanwhile share the next one (group commit). An answer about a group
is sent when every record of that group that was added before it is durable, so an answer is never contradicted by the
log after a crash. When an append fails, no later record is appended: only the log shows whether the failed append
happened, and the coordinator loads it again.

Records of a transaction have a batch of their own, with the producer of the transaction. The marker that ends it does
not pass here: it is appended when none of these records waits any more, and answers about its groups wait until it is
durable."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from siltstone.broker.coordination.checkpoints import LogSize
from siltstone.broker.groups.offsets_log.record import EncodedRecord, LogProducer
from siltstone.broker.groups.ports import GroupLog
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.serving_limits import GROUP_APPEND_BYTES_MAX, GROUP_RECORDS_WAITING_BYTES_MAX
from siltstone.runtime.tasks import TaskGroup

RECORD_OVERHEAD_BYTES = 200
"""The memory that a waiting record takes besides its bytes."""

HeldAnswer: TypeAlias = "tuple[asyncio.Future[Any], Any]"


class _Batch:
    def __init__(self, producer: LogProducer | None) -> None:
        self.producer = producer
        self.records: list[EncodedRecord] = []
        self.size_bytes = 0
        self.group_ids: set[str] = set()
        self.answers: list[HeldAnswer] = []
        self.is_under_way = False

    def has_room_for(self, record_bytes: int, producer: LogProducer | None) -> bool:
        if self.producer != producer:
            return False
        fits = self.size_bytes + record_bytes <= GROUP_APPEND_BYTES_MAX
        return not self.is_under_way and (fits or not self.records)


class LogWriter:
    """``length``: counts what is added. ``on_failure`` is called at most once. After that, and after ``stop``, no
    record is appended, and every answer is COORDINATOR_NOT_AVAILABLE."""

    def __init__(
        self, log: GroupLog, length: LogSize, tasks: TaskGroup, on_failure: Callable[[Exception], None]
    ) -> None:
        self._log = log
        self._length = length
        self._tasks = tasks
        self._on_failure = on_failure
        self._batches: deque[_Batch] = deque()
        self._newest_of: dict[str, _Batch] = {}
        self._marker_of: dict[str, asyncio.Future[int]] = {}
        self._is_writing = False
        self._has_ended = False
        self._waiting_bytes = 0

    @property
    def has_backlog(self) -> bool:
        """Whether so many bytes wait for the log that requests which write records must be refused: clients without an
        answer retry, and each retry adds records."""
        return self._waiting_bytes > GROUP_RECORDS_WAITING_BYTES_MAX

    def has_waiting_of(self, producer_id: int) -> bool:
        """Whether records of the producer's transaction are not appended yet."""
        return any(
            batch.producer is not None
            and batch.producer.producer_id == producer_id
            and not batch.is_under_way
            for batch in self._batches
        )

    @property
    def has_waiting_transactions(self) -> bool:
        """Whether records of any transaction are not appended yet."""
        return any(batch.producer is not None and not batch.is_under_way for batch in self._batches)

    def add(
        self,
        records: Sequence[EncodedRecord],
        group_id: str | None = None,
        producer: LogProducer | None = None,
        *,
        is_one: bool = False,
    ) -> None:
        """``group_id``: answers about that group wait until these records are durable. ``producer``: they are in its
        transaction. ``is_one``: they are in one append if they fit one, so that a crash leaves all or none."""
        if self._has_ended:
            return
        if is_one and records:
            self._make_room(sum(len(key) + len(value or b"") for key, value in records), producer)
        for record in records:
            record_bytes = len(record[0]) + len(record[1] or b"")
            self._waiting_bytes += record_bytes + RECORD_OVERHEAD_BYTES
            batch = self._batch_for(record_bytes, producer)
            batch.records.append(record)
            if group_id is not None:
                batch.group_ids.add(group_id)
                self._newest_of[group_id] = batch
        self._length.added += len(records)
        if records and not self._is_writing:
            self._is_writing = True
            self._tasks.start("append", self._write())

    def give(self, group_id: str, future: "asyncio.Future[Any]", answer: Any) -> None:
        """Resolves ``future`` with ``answer`` when all records of the group are durable, or with
        COORDINATOR_NOT_AVAILABLE when their append failed."""
        batch = self._newest_of.get(group_id)
        if self._has_ended:
            _resolve(future, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif (marker := self._marker_of.get(group_id)) is not None:
            marker.add_done_callback(lambda _: self.give(group_id, future, answer))
        elif batch is None:
            _resolve(future, answer)
        else:
            batch.answers.append((future, answer))

    def marked(self, group_ids: Iterable[str], durable: "asyncio.Future[int]") -> None:
        """A marker was appended that changes these groups: answers about them wait until it is durable."""
        group_ids = tuple(group_ids)
        self._marker_of.update(dict.fromkeys(group_ids, durable))
        durable.add_done_callback(lambda _: self._marker_ended(group_ids, durable))

    def _marker_ended(self, group_ids: tuple[str, ...], durable: "asyncio.Future[int]") -> None:
        for group_id in group_ids:
            if self._marker_of.get(group_id) is durable:
                del self._marker_of[group_id]
        failure = asyncio.CancelledError() if durable.cancelled() else durable.exception()
        if failure is not None and not self._has_ended:
            self._give_up()
            if isinstance(failure, Exception):
                self._on_failure(failure)

    def flushed(self) -> "asyncio.Future[Any]":
        """Returns a future that gets True when every record added so far is durable, and another value when an append
        failed."""
        durable: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._has_ended:
            durable.set_result(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif self._batches:
            self._batches[-1].answers.append((durable, True))
        else:
            durable.set_result(True)
        return durable

    def stop(self) -> None:
        """Begins no further append. An append that is under way may still be completed: only the log shows it."""
        self._give_up()

    def _batch_for(self, record_bytes: int, producer: LogProducer | None) -> _Batch:
        self._make_room(record_bytes, producer)
        batch = self._batches[-1]
        batch.size_bytes += record_bytes
        return batch

    def _make_room(self, size_bytes: int, producer: LogProducer | None) -> None:
        if not self._batches or not self._batches[-1].has_room_for(size_bytes, producer):
            self._batches.append(_Batch(producer))

    async def _write(self) -> None:
        while self._batches:
            batch = self._batches[0]
            batch.is_under_way = True
            try:
                await self._log.append(batch.records, batch.producer)
            except Exception as failure:
                if not self._has_ended:
                    self._give_up()
                    self._on_failure(failure)
                return
            except asyncio.CancelledError:
                self._give_up()
                raise
            if self._has_ended:
                return
            self._complete(self._batches.popleft())
        self._is_writing = False

    def _complete(self, batch: _Batch) -> None:
        self._waiting_bytes -= batch.size_bytes + len(batch.records) * RECORD_OVERHEAD_BYTES
        for group_id in batch.group_ids:
            if self._newest_of[group_id] is batch:
                del self._newest_of[group_id]
        for future, answer in batch.answers:
            _resolve(future, answer)

    def _give_up(self) -> None:
        self._has_ended = True
        for batch in self._batches:
            for future, _ in batch.answers:
                _resolve(future, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._batches.clear()
        self._newest_of.clear()


def _resolve(future: "asyncio.Future[Any]", answer: Any) -> None:
    """Resolves a future, unless it is done already because its caller was cancelled."""
    if not future.done():
        future.set_result(answer)
