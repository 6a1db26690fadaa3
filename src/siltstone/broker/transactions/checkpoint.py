"""Shortens the log of a coordinator: each transaction is written again as it is, and the log before that is trimmed."""

from collections.abc import Callable, Iterator, Sequence

from siltstone.broker.coordination.checkpoints import LogSize, write_again
from siltstone.broker.transactions.ports import TransactionLog
from siltstone.broker.transactions.rules.transaction import Transaction, record_of
from siltstone.broker.transactions.state_log.record import EncodedRecord, encode_record
from siltstone.model.serving_limits import GROUP_APPEND_BYTES_MAX

FindTransaction = Callable[[str], Transaction | None]


async def write_checkpoint(
    names: Sequence[str], find: FindTransaction, log: TransactionLog, length: LogSize
) -> bool:
    """``find`` returns the transaction of an id as it is at the call. Returns True. Raises what appending and trimming
    raise; then nothing was trimmed."""

    async def append(step: Sequence[EncodedRecord]) -> bool:
        length.added += len(step)
        if step:
            await log.append(step)
        return True

    return await write_again(log, length, _steps(names, find), append)


def _steps(names: Sequence[str], find: FindTransaction) -> Iterator[list[EncodedRecord]]:
    """Yields the records of ids that are known still, half an append at a time."""
    step: list[EncodedRecord] = []
    size_bytes = 0
    for name in names:
        if (transaction := find(name)) is not None:
            key, value = encode_record(record_of(transaction))
            step.append((key, value))
            size_bytes += len(key) + len(value or b"")
        if size_bytes >= GROUP_APPEND_BYTES_MAX // 2:
            yield step
            step, size_bytes = [], 0
    yield step
