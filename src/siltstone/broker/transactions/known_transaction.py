"""The transactions that a coordinator knows: each the newest of its transactional id, with what waits for it; how they
are found by id and by producer, and in the log."""

import asyncio
from collections.abc import Iterator, Mapping

import msgspec

from siltstone.broker.coordination.life import resolve, resolved_after
from siltstone.broker.transactions.ports import TransactionLog
from siltstone.broker.transactions.rules.transaction import PREPARED, Transaction, transaction_of
from siltstone.broker.transactions.state_log.record import (
    LoggedTransaction,
    TopicPartition,
    TransactionState,
    decode_record,
)
from siltstone.model.serving_limits import (
    TRANSACTION_MARKER_RETRY_MS_MAX,
    TRANSACTION_MARKER_RETRY_MS_MIN,
)
from siltstone.runtime.clock import Clock


class KnownTransaction(msgspec.Struct, eq=False):
    """``written``: the newest record of the id. ``left``: the partitions that have no marker yet. ``waiting``: requests
    that wait until the transaction is complete."""

    transaction: Transaction
    written: "asyncio.Future[int] | None" = None
    left: frozenset[TopicPartition] = frozenset()
    waiting: "tuple[asyncio.Future[None], ...]" = ()

    @property
    def is_open(self) -> bool:
        return self.transaction.state is TransactionState.ONGOING

    async def is_durable(self) -> bool:
        """Waits for the newest record at the call. Returns whether it is durable; else its append failed."""
        written = self.written
        if written is None:
            return True
        await asyncio.wait({written})
        return not written.cancelled() and written.exception() is None

    async def completed(self, deadline_ms: float, clock: Clock) -> bool:
        """Waits until the transaction is complete, or the time is over. Returns whether it is."""
        left_ms = deadline_ms - clock.monotonic_ms()
        if self.transaction.state in PREPARED and left_ms > 0:
            completed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.waiting = (*self.waiting, completed)
            try:
                with resolved_after(completed, left_ms, clock):
                    await completed
            finally:
                self.waiting = tuple(each for each in self.waiting if each is not completed)
        return self.transaction.state not in PREPARED

    def has_completed(self) -> None:
        for waiting in self.waiting:
            resolve(waiting)


class TransactionIndex:
    """By transactional id, and by producer id: questions of leaders name the producer alone. No two ids share one."""

    def __init__(self, transactions: Mapping[str, Transaction] | None = None) -> None:
        self._by_id = {key: KnownTransaction(each) for key, each in (transactions or {}).items()}
        self._by_producer = {each.transaction.producer_id: each for each in self._by_id.values()}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[KnownTransaction]:
        return iter(self._by_id.values())

    def ids(self) -> list[str]:
        return list(self._by_id)

    def get(self, transactional_id: str) -> KnownTransaction | None:
        return self._by_id.get(transactional_id)

    def of_producer(self, producer_id: int) -> KnownTransaction | None:
        return self._by_producer.get(producer_id)

    def put(self, transaction: Transaction) -> KnownTransaction:
        """Makes this the newest transaction of its id. One that is dead is forgotten."""
        known = self._by_id.setdefault(transaction.transactional_id, KnownTransaction(transaction))
        self._by_producer.pop(known.transaction.producer_id, None)
        known.transaction = transaction
        if transaction.state is TransactionState.DEAD:
            del self._by_id[transaction.transactional_id]
        else:
            self._by_producer[transaction.producer_id] = known
        return known


class Retries:
    """The waits of markers that could not be written; they end early when partitions have other leaders."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[asyncio.Future[bool], None] = {}

    async def wait(self, wait_ms: int) -> int:
        """Returns how long to wait the next time."""
        again: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[again] = None
        timer = self._clock.call_after_ms(wait_ms, lambda: _woken(again, leaders_changed=False))
        try:
            has_changed = await again
        finally:
            timer.cancel()
            self._waiting.pop(again, None)
        if has_changed:
            return TRANSACTION_MARKER_RETRY_MS_MIN
        return min(2 * wait_ms, TRANSACTION_MARKER_RETRY_MS_MAX)

    def leaders_changed(self) -> None:
        for again in self._waiting:
            _woken(again, leaders_changed=True)


def _woken(again: "asyncio.Future[bool]", *, leaders_changed: bool) -> None:
    if not again.done():
        again.set_result(leaders_changed)


async def replayed(transaction_log: TransactionLog) -> tuple[dict[str, Transaction], int]:
    """Reads the whole log: the newest record of each transactional id counts. Returns the number of records, too.
    Raises DamagedTransactionRecord, and what the log raises."""
    newest: dict[str, LoggedTransaction] = {}
    records_read = 0
    async for encoded in transaction_log.read_all():
        records_read += 1
        record = decode_record(encoded)
        if record.logged is None:
            newest.pop(record.transactional_id, None)
        else:
            newest[record.transactional_id] = record.logged
    return {key: transaction_of(key, logged) for key, logged in newest.items()}, records_read
