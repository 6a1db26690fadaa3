"""The newest transaction of a transactional id at its coordinator, with what waits for it; and how a coordinator finds
them in its log."""

import asyncio

import msgspec

from siltstone.broker.transactions.ports import TransactionLog
from siltstone.broker.transactions.rules.transaction import PREPARED, Transaction, transaction_of
from siltstone.broker.transactions.state_log.record import LoggedTransaction, TopicPartition, decode_record
from siltstone.runtime.clock import Clock


class KnownTransaction(msgspec.Struct, eq=False):
    """``written``: the newest record of the id. ``left``: the partitions that have no marker yet. ``waiting``: requests
    that wait until the transaction is complete."""

    transaction: Transaction
    written: "asyncio.Future[int] | None" = None
    left: frozenset[TopicPartition] = frozenset()
    waiting: "set[asyncio.Future[None]]" = set()

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
            self.waiting = self.waiting | {completed}
            timer = clock.call_after_ms(left_ms, lambda: resolve(completed))
            try:
                await completed
            finally:
                timer.cancel()
                self.waiting = self.waiting - {completed}
        return self.transaction.state not in PREPARED

    def has_completed(self) -> None:
        for waiting in self.waiting:
            resolve(waiting)


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


def resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
