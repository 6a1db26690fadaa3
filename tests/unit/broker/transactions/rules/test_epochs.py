import msgspec
import pytest

from siltstone.broker.transactions.rules.epochs import (
    is_end_repeated,
    is_used_up,
    may_start,
    waits_for_its_producer_id,
)
from siltstone.broker.transactions.rules.requests import End, StartProducer
from siltstone.broker.transactions.rules.transaction import Transaction
from siltstone.broker.transactions.state_log.record import TransactionState

AFTER_THE_LAST = Transaction(
    "pay", 8, 0, 60_000, TransactionState.COMPLETE_COMMIT, previous_producer_id=7, last_epoch=32_766
)


@pytest.mark.parametrize(("epoch", "used_up"), [(-1, False), (0, False), (32_765, False), (32_766, True)])
def test_clients_get_epochs_up_to_32766(epoch: int, used_up: bool) -> None:
    assert is_used_up(epoch) is used_up


@pytest.mark.parametrize(
    ("pid", "epoch", "repeated"),
    [(7, 32_766, True), (7, 32_765, False), (8, -1, True), (8, 0, False), (9, 32_766, False)],
)
def test_tx20_an_end_is_repeated_with_the_epoch_before(pid: int, epoch: int, repeated: bool) -> None:
    assert is_end_repeated(AFTER_THE_LAST, End(pid, epoch, True, 2)) is repeated


def test_tx20_the_producer_id_before_is_forgotten_with_the_next_epoch() -> None:
    later = msgspec.structs.replace(AFTER_THE_LAST, producer_epoch=1)
    assert not is_end_repeated(later, End(7, 32_766, True, 2))


@pytest.mark.parametrize(
    ("pid", "epoch", "may"),
    [(-1, -1, True), (8, 5, True), (7, 32_766, True), (7, 32_765, False), (9, 32_766, False)],
)
def test_tx23_the_producer_id_before_may_ask_if_it_is_used_up(pid: int, epoch: int, may: bool) -> None:
    assert may_start(AFTER_THE_LAST, StartProducer(1, pid, epoch)) is may


def test_tx20_a_client_waits_for_its_producer_id_only_while_markers_are_written() -> None:
    prepared = Transaction(
        "pay", 7, 32_767, 60_000, TransactionState.PREPARE_COMMIT, next_producer_id=8
    )  # fmt: skip
    assert waits_for_its_producer_id(prepared, 8)
    assert not waits_for_its_producer_id(prepared, 7)
    assert not waits_for_its_producer_id(msgspec.structs.replace(prepared, next_producer_id=-1), -1)
    assert not waits_for_its_producer_id(AFTER_THE_LAST, 8)
