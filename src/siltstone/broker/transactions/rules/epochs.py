"""Epochs of a producer id: which one is current, repeated or fenced, and what happens after the last one.

An epoch has 16 bits. Clients get 0 to 32,766; 32,767 stands only in the markers of the last transaction of a producer
id. Whatever would need a higher one gets another producer id and epoch 0.
"""

from siltstone.broker.transactions.rules.requests import End, StartProducer
from siltstone.broker.transactions.rules.transaction import NO_EPOCH, PREPARED, Transaction
from siltstone.broker.transactions.state_log.record import NONE

LAST_EPOCH_OF_CLIENTS = 2**15 - 2


def is_used_up(epoch: int) -> bool:
    return epoch >= LAST_EPOCH_OF_CLIENTS


def waits_for_its_producer_id(transaction: Transaction, producer_id: int) -> bool:
    """Whether the client has been given a producer id that is valid when the markers are written: it was answered when
    the outcome was decided (KAFKA-18660)."""
    return transaction.state in PREPARED and producer_id == transaction.next_producer_id != NONE


def is_end_repeated(transaction: Transaction, end: End) -> bool:
    """Whether the client of transaction version 2 has ended a transaction with this epoch, and did not get the answer.
    Then the coordinator is one epoch further, or has another producer id."""
    if end.producer_id == transaction.producer_id:
        return transaction.producer_epoch == end.producer_epoch + 1
    return is_end_of_previous_producer_id(transaction, end)


def is_end_of_previous_producer_id(transaction: Transaction, end: End) -> bool:
    return (
        end.producer_id == transaction.previous_producer_id
        and end.producer_epoch == LAST_EPOCH_OF_CLIENTS
        and transaction.producer_epoch == 0
    )


def may_start(transaction: Transaction, request: StartProducer) -> bool:
    """Whether the producer id that the client names, if any, is that of the transactional id. An id without an epoch
    takes any: the coordinator has forgotten the producer. The producer id before is taken if its epochs are used up:
    the answer with the new one may have been lost."""
    if request.producer_id == NONE or transaction.producer_epoch == NO_EPOCH:
        return True
    if request.producer_id == transaction.producer_id:
        return True
    return request.producer_id == transaction.previous_producer_id and is_used_up(request.producer_epoch)
