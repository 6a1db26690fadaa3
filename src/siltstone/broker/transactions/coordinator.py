"""The coordinator of the transactional ids in one partition of ``__transaction_state``.

``coordination.life`` has its phases.

A commit is one turn of the event loop when this node leads all partitions of the transaction and they are open: the
prepared record, the markers and the complete record are appended one after another, and the client is answered when the
last one is durable. A crash keeps a prefix of them: nothing, and the transaction times out; or the prepared record and
some markers, and the next coordinator writes the others; or all.

Where a marker cannot be written at once, the transaction stays prepared, and the marker is tried again until it is
there. Requests for the id wait for that, for a second at most, before the answer says to ask again.
"""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from siltstone.broker.coordination.checkpoints import LogSize
from siltstone.broker.coordination.life import CoordinatorLife, Phase
from siltstone.broker.coordination.timers import TimerHeap
from siltstone.broker.transactions.checkpoint import write_checkpoint
from siltstone.broker.transactions.known_transaction import (
    KnownTransaction,
    Retries,
    TransactionIndex,
    replayed,
)
from siltstone.broker.transactions.ports import (
    MarkerSink,
    NewProducerIds,
    TransactionLog,
    TransactionLogs,
)
from siltstone.broker.transactions.rules.deciding import decide, refusal_to_look, wants_producer_id
from siltstone.broker.transactions.rules.decision import MarkersToWrite, TransactionDecision, markers_of
from siltstone.broker.transactions.rules.requests import (
    AddToTransaction,
    Answer,
    Expire,
    JoinedTransaction,
    MarkersWritten,
    Request,
    StartProducer,
    TimeOut,
)
from siltstone.broker.transactions.rules.transaction import (
    AT_REST,
    PREPARED,
    Transaction,
    new_transaction,
)
from siltstone.broker.transactions.state_log.record import (
    TopicPartition,
    TransactionState,
    encode_record,
)
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.errors import SiltstoneError
from siltstone.model.serving_limits import (
    TRANSACTION_CHECKPOINT_LIVE_FACTOR,
    TRANSACTION_CHECKPOINT_RECORDS_MIN,
    TRANSACTION_MARKER_RETRY_MS_MAX,
    TRANSACTION_MARKER_RETRY_MS_MIN,
    TRANSACTION_RELOAD_INTERVAL_MS,
    TRANSACTION_WAIT_MS,
    TRANSACTIONAL_IDS_MAX,
)
from siltstone.runtime.clock import Clock

log = logging.getLogger(__name__)


class TransactionCoordinator:
    """``partition_count``: of ``__transaction_state``."""

    def __init__(
        self,
        partition: int,
        partition_count: int,
        logs: TransactionLogs,
        markers: MarkerSink,
        producer_ids: NewProducerIds,
        clock: Clock,
        checkpoint_records_min: int = TRANSACTION_CHECKPOINT_RECORDS_MIN,
    ) -> None:
        self._partition = partition
        self._partition_count = partition_count
        self._logs = logs
        self._markers = markers
        self._producer_ids = producer_ids
        self._clock = clock
        self._timers = TimerHeap(clock)
        self._life = CoordinatorLife(
            "transactions", f"__transaction_state-{partition}", clock, self._read_log, self._discard
        )
        self._log: TransactionLog | None = None
        self._length = LogSize(checkpoint_records_min, TRANSACTION_CHECKPOINT_LIVE_FACTOR)
        self._known = TransactionIndex()
        self._retries = Retries(clock)
        self._doubted_ms = -float("inf")

    @property
    def phase(self) -> Phase:
        return self._life.phase

    def start(self) -> None:
        self._life.start()

    async def loaded(self) -> None:
        """Waits until the transactions are loaded, at most COORDINATOR_LOAD_WAIT_MS."""
        await self._life.loaded()

    async def close(self) -> None:
        """Decides nothing any more. Appends that are under way may still become durable."""
        self._life.end()
        self._discard()
        await self._life.tasks.cancel()

    def transactions(self) -> list[Transaction]:
        """Returns the transactions in their present state, which need not be durable yet."""
        return [known.transaction for known in self._known]

    def find(self, transactional_id: str) -> Transaction | None:
        known = self._known.get(transactional_id)
        return None if known is None else known.transaction

    # -- ask ---------------------------------------------------------------------------------------------

    async def ask(self, transactional_id: str, request: Request) -> Answer:
        """Returns the answer when all that it rests on is durable."""
        return await self._when_durable(*await self._decided_in_time(transactional_id, request))

    async def join(self, transactional_id: str, add: AddToTransaction) -> JoinedTransaction | ErrorCode:
        """Adds the partitions to the producer's transaction, and returns in the turn in which that is appended: what
        the caller appends in this turn is durable after it, or not at all."""
        known, answer = await self._decided_in_time(transactional_id, add)
        if known is None or answer is not ErrorCode.NONE:
            assert isinstance(answer, ErrorCode)
            return answer
        return self._shown(known.transaction, known.transaction.partitions)

    async def joined(self, transactional_id: str, add: AddToTransaction) -> JoinedTransaction | ErrorCode:
        """Returns the producer's transaction as it is in the turn in which this returns, and adds nothing to it."""
        deadline_ms = self._clock.monotonic_ms() + TRANSACTION_WAIT_MS
        while True:
            if self.phase is not Phase.ACTIVE:
                return self._life.refusal
            known = self._known.get(transactional_id)
            if known is None:
                return ErrorCode.INVALID_PRODUCER_ID_MAPPING
            refusal = refusal_to_look(known.transaction, add)
            if refusal is None:
                is_open = known.transaction.state is TransactionState.ONGOING
                partitions = known.transaction.partitions if is_open else frozenset()
                return self._shown(known.transaction, partitions)
            if refusal is not ErrorCode.CONCURRENT_TRANSACTIONS:
                return refusal
            if not await known.completed(deadline_ms, self._clock):
                return refusal

    async def permit(
        self, transactional_id: str, add: AddToTransaction, *, adds: bool
    ) -> JoinedTransaction | ErrorCode:
        """Does what ``join`` does, or ``joined``, for a partition that another node leads: the answer leaves when it is
        durable that the partition is in the transaction. Else nobody would end what is appended there."""
        if self._log is not None and add.coordinator_epoch > self._log.coordinator_epoch:
            self.doubt()
            return ErrorCode.NOT_COORDINATOR
        joined = await (self.join if adds else self.joined)(transactional_id, add)
        if isinstance(joined, ErrorCode):
            return joined
        known = self._known.get(transactional_id)
        if known is None or not await known.is_durable():
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return joined if self.phase is Phase.ACTIVE else self._life.refusal

    async def open_of(self, producer_id: int) -> JoinedTransaction | ErrorCode:
        """Returns the transaction of the producer that is open, or has markers on their way, when it is durable."""
        if self.phase is not Phase.ACTIVE:
            return self._life.refusal
        known = self._known.of_producer(producer_id)
        if known is None or known.transaction.state in AT_REST:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        found = known.transaction
        is_shown = await known.is_durable() and self.phase is Phase.ACTIVE
        return self._shown(found, found.partitions) if is_shown else ErrorCode.NOT_COORDINATOR

    def _shown(self, transaction: Transaction, partitions: frozenset[TopicPartition]) -> JoinedTransaction:
        assert self._log is not None
        return JoinedTransaction(transaction.start_ms, partitions, self._log.coordinator_epoch)

    async def _decided_in_time(
        self, transactional_id: str, request: Request
    ) -> tuple[KnownTransaction | None, Answer]:
        """Waits for the transaction before it to be complete, for TRANSACTION_WAIT_MS at most. Returns in the turn of
        the decision."""
        deadline_ms = self._clock.monotonic_ms() + TRANSACTION_WAIT_MS
        try:
            while True:
                if self.phase is not Phase.ACTIVE:
                    return None, self._life.refusal
                known, answer = await self._decided(transactional_id, request)
                if known is None or answer is not ErrorCode.CONCURRENT_TRANSACTIONS or known.is_open:
                    return known, answer
                if not await known.completed(deadline_ms, self._clock):
                    return known, answer
        except SiltstoneError as trouble:
            log.warning("a request for transactional id %r has to be repeated: %s", transactional_id, trouble)
            return None, ErrorCode.COORDINATOR_NOT_AVAILABLE

    async def _decided(
        self, transactional_id: str, request: Request
    ) -> tuple[KnownTransaction | None, Answer]:
        """Decides and performs. Everything that has to be waited for is fetched first, and then the request is decided
        on the state of that moment. Raises SiltstoneError; then nothing has changed."""
        fresh: int | None = None
        has_opened = False
        while self.phase is Phase.ACTIVE:
            known, now_ms = self._known.get(transactional_id), self._clock.now_ms()
            if known is None and not isinstance(request, StartProducer):
                return None, ErrorCode.INVALID_PRODUCER_ID_MAPPING
            if known is None and len(self._known) >= TRANSACTIONAL_IDS_MAX:
                return None, ErrorCode.COORDINATOR_NOT_AVAILABLE
            if fresh is None and (known is None or wants_producer_id(known.transaction, request, now_ms)):
                fresh = await self._producer_ids.next_of(self._partition, self._partition_count)
                continue
            if known is None:
                assert fresh is not None and isinstance(request, StartProducer)
                transaction = new_transaction(transactional_id, fresh, request.timeout_ms)
            else:
                transaction = known.transaction
            decision = decide(transaction, request, now_ms, fresh)
            if decision.markers is not None and not has_opened:
                await self._markers.open(decision.markers.partitions)
                has_opened = True
                continue
            return self._perform(known, decision), decision.answer
        return None, self._life.refusal

    def _perform(
        self, known: KnownTransaction | None, decision: TransactionDecision
    ) -> KnownTransaction | None:
        """Raises SiltstoneError; then nothing has changed."""
        if decision.record is None:
            return known
        assert self._log is not None
        written = self._log.append([encode_record(decision.record)])
        self._record_added()
        known = self._known.put(decision.transaction)
        self._follow(known, written)
        self._set_timer(decision.transaction)
        if decision.markers is not None:
            known.left = decision.markers.partitions
            if not self._finish_now(known, decision.markers):
                self._life.tasks.start("finish", self._finish(known, decision.markers))
        return known

    async def _when_durable(self, known: KnownTransaction | None, answer: Answer) -> Answer:
        is_durable = known is None or await known.is_durable()
        return answer if is_durable else ErrorCode.COORDINATOR_NOT_AVAILABLE

    def _follow(self, known: KnownTransaction, written: "asyncio.Future[int]") -> None:
        known.written = written
        written.add_done_callback(self._appended)

    def _appended(self, written: "asyncio.Future[int]") -> None:
        if not written.cancelled() and (failure := written.exception()) is not None:
            self._life.fail(failure)

    # -- markers -----------------------------------------------------------------------------------------

    def _finish_now(self, known: KnownTransaction, markers: MarkersToWrite) -> bool:
        """Writes the markers that are missing and, if all are there, the complete record. Returns whether it is
        written."""
        assert self._log is not None
        epoch = self._log.coordinator_epoch
        known.left = frozenset(
            partition
            for partition in sorted(known.left)
            if not self._markers.write(partition, markers, epoch)
        )
        if known.left:
            return False
        decision = decide(known.transaction, MarkersWritten(), self._clock.now_ms())
        assert decision.record is not None
        try:
            written = self._log.append([encode_record(decision.record)])
        except SiltstoneError as trouble:
            log.warning(
                "transaction %r is complete, which will be recorded later: %s",
                known.transaction.transactional_id,
                trouble,
            )
            return False
        self._record_added()
        self._known.put(decision.transaction)
        self._follow(known, written)
        known.has_completed()
        return True

    async def _finish(self, known: KnownTransaction, markers: MarkersToWrite) -> None:
        """Tries again until every marker is written: the outcome is decided. Other nodes hear of it when that is
        durable."""
        if not await known.is_durable():
            return
        wait_ms = TRANSACTION_MARKER_RETRY_MS_MIN
        while True:
            if await self._send(known, markers) and self._finish_now(known, markers):
                return
            wait_ms = await self._retries.wait(wait_ms)
            if not self._has(known):
                return
            await self._markers.open(known.left)
            if not self._has(known) or self._finish_now(known, markers):
                return
            if wait_ms == TRANSACTION_MARKER_RETRY_MS_MAX and known.left:
                log.warning(
                    "transaction %r waits for the markers of %d partitions, such as %s-%d",
                    known.transaction.transactional_id, len(known.left), *min(known.left),
                )  # fmt: skip

    def _has(self, known: KnownTransaction) -> bool:
        """Whether this is what the coordinator knows of the id; it may have ended, or been loaded again."""
        return self._known.get(known.transaction.transactional_id) is known

    async def _send(self, known: KnownTransaction, markers: MarkersToWrite) -> bool:
        """Has other nodes write their markers. Returns whether there is one marker less to write."""
        if not self._has(known) or self._log is None:
            return False
        answered = await self._markers.send(known.left, markers, self._log.coordinator_epoch)
        known.left = known.left - answered.written
        if answered.knows_newer and self._has(known):
            self.doubt()
        return self._has(known) and bool(answered.written)

    def doubt(self) -> None:
        """Another node knows a newer coordinator, or a newer epoch of a producer, than this coordinator. Its log, which
        is read again, says whether it still decides; where another node leads by now it is not opened."""
        now_ms = self._clock.monotonic_ms()
        if self.phase is Phase.ACTIVE and now_ms - self._doubted_ms >= TRANSACTION_RELOAD_INTERVAL_MS:
            self._doubted_ms = now_ms
            self._life.fail("another node knows something newer")

    def leaders_changed(self) -> None:
        """Markers that wait are tried again at once: their partitions may have other leaders."""
        self._retries.leaders_changed()

    # -- the log -----------------------------------------------------------------------------------------

    def _record_added(self) -> None:
        self._length.added += 1
        if self._length.is_long(len(self._known)):
            self._life.checkpoint(self._checkpoint)

    async def _checkpoint(self) -> bool:
        known, transaction_log = self._known, self._log
        assert transaction_log is not None

        def find(transactional_id: str) -> Transaction | None:
            return self.find(transactional_id) if known is self._known else None

        return await write_checkpoint(known.ids(), find, transaction_log, self._length)

    # -- time --------------------------------------------------------------------------------------------

    def _set_timer(self, transaction: Transaction) -> None:
        key = transaction.transactional_id
        if transaction.state is TransactionState.ONGOING:
            remaining_ms = transaction.remaining_ms(self._clock.now_ms())
            self._timers.set(key, remaining_ms, lambda: self._ring(key, transaction.start_ms))
        else:
            self._timers.cancel(key)

    def _ring(self, transactional_id: str, start_ms: int) -> None:
        self._life.tasks.start("time-out", self._time_out(transactional_id, start_ms))

    async def _time_out(self, transactional_id: str, start_ms: int) -> None:
        """A time-out that cannot be written now is tried again: nothing was changed by it."""
        answer = await self.ask(transactional_id, TimeOut(start_ms))
        if answer is ErrorCode.COORDINATOR_NOT_AVAILABLE and self.phase is Phase.ACTIVE:
            retry_ms = TRANSACTION_MARKER_RETRY_MS_MAX
            self._timers.set(transactional_id, retry_ms, lambda: self._ring(transactional_id, start_ms))

    async def expire(self, expiration_ms: int) -> None:
        """Forgets the ids that nothing has happened to for so long."""
        for transactional_id in self._known.ids():
            await self.ask(transactional_id, Expire(expiration_ms))

    # -- load --------------------------------------------------------------------------------------------

    async def _read_log(self) -> Callable[[], None]:
        transaction_log = await self._logs.open(self._partition)
        loaded, records_read = await replayed(transaction_log)
        return lambda: self._begin(transaction_log, loaded, records_read)

    def _begin(
        self, transaction_log: TransactionLog, loaded: dict[str, Transaction], records_read: int
    ) -> None:
        """Every prepared transaction gets all its markers again, and every open one its timer, without a request: they
        hold back the readers of committed records."""
        self._timers = TimerHeap(self._clock)
        self._log = transaction_log
        self._known = TransactionIndex(loaded)
        self._length = msgspec.structs.replace(self._length, read=records_read, added=0)
        for known in self._known:
            self._set_timer(known.transaction)
            if known.transaction.state in PREPARED:
                markers = markers_of(known.transaction)
                known.left = markers.partitions
                self._life.tasks.start("finish", self._finish_loaded(known, markers))

    async def _finish_loaded(self, known: KnownTransaction, markers: MarkersToWrite) -> None:
        await self._markers.open(known.left)
        if self._has(known) and not self._finish_now(known, markers):
            await self._finish(known, markers)

    def _discard(self) -> None:
        self._timers.close()
        known, self._known = self._known, TransactionIndex()
        for each in known:
            each.has_completed()
