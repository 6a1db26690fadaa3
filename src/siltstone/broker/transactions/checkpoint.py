"""Shortens the log of a coordinator: each transaction is written again as it is, and the log before that is trimmed.

Requests continue meanwhile, and the log is right all the same: each record has the state at the moment when it is
appended, and a later change comes later in the log. An id that is forgotten meanwhile has its tombstone behind.
"""

from collections.abc import Callable, Sequence

from siltstone.broker.transactions.ports import TransactionLog
from siltstone.broker.transactions.rules.transaction import Transaction, record_of
from siltstone.broker.transactions.state_log.record import EncodedRecord, encode_record
from siltstone.model.serving_limits import (
    GROUP_APPEND_BYTES_MAX,
    TRANSACTION_CHECKPOINT_LIVE_FACTOR,
    TRANSACTION_CHECKPOINT_RECORDS_MIN,
)


def is_long(log_records: int, live_records: int) -> bool:
    """Whether a log of so many records is to be written again."""
    return log_records > max(
        TRANSACTION_CHECKPOINT_RECORDS_MIN, TRANSACTION_CHECKPOINT_LIVE_FACTOR * live_records
    )


async def write_checkpoint(
    names: Sequence[str], find: Callable[[str], Transaction | None], log: TransactionLog
) -> None:
    """``find`` returns the transaction of an id as it is at the call. Raises what appending and trimming raise; then
    nothing was trimmed."""
    start_offset = log.next_offset
    left = list(reversed(names))
    while left:
        step: list[EncodedRecord] = []
        size_bytes = 0
        while left and size_bytes < GROUP_APPEND_BYTES_MAX // 2:
            if (transaction := find(left.pop())) is not None:
                key, value = encode_record(record_of(transaction))
                step.append((key, value))
                size_bytes += len(key) + len(value or b"")
        if step:
            await log.append(step)
    await log.trim_before(start_offset)
