import pytest

from siltstone.broker.transactions.rules.transaction import (
    Transaction,
    new_transaction,
    record_of,
    transaction_of,
)
from siltstone.broker.transactions.state_log.record import TransactionState

OPEN = Transaction(
    "pay", 7, 5, 60_000, TransactionState.ONGOING, frozenset({("a", 0)}), 1_200, 1_000, 7, 9, 2,
    last_epoch=4, last_start_ms=1_000,
)  # fmt: skip


def test_what_is_written_down_is_known_again_but_for_the_last_epoch() -> None:
    record = record_of(OPEN)
    assert record.transactional_id == "pay" and record.logged is not None
    loaded = transaction_of("pay", record.logged)
    assert loaded.last_epoch == -1
    assert loaded.last_start_ms == loaded.start_ms == 1_000
    assert record_of(loaded) == record


def test_a_dead_id_is_a_tombstone() -> None:
    dead = Transaction("pay", 7, 5, 60_000, TransactionState.DEAD)
    assert record_of(dead).logged is None


def test_a_new_id_has_no_epoch() -> None:
    made = new_transaction("pay", 7, 60_000)
    assert (made.producer_epoch, made.state, made.previous_producer_id) == (-1, TransactionState.EMPTY, 7)


@pytest.mark.parametrize(
    ("now_ms", "remaining_ms"), [(1_000, 60_000), (41_000, 20_000), (61_000, 0), (90_000, 0), (500, 60_000)]
)
def test_tx32_the_rest_of_the_time_is_never_longer_than_the_timeout(now_ms: int, remaining_ms: int) -> None:
    assert OPEN.remaining_ms(now_ms) == remaining_ms
