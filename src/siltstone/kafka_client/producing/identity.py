"""The identity under which a producer's repetitions are recognised (KIP-98)."""

import msgspec

from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.failures import refuse_error
from siltstone.kafka_protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_NO_TRANSACTIONS_TIMEOUT_MS = 60_000
"""Means nothing without a transactional id, but has to be a time."""


class ProducerIdentity(msgspec.Struct, frozen=True):
    producer_id: int
    epoch: int


def new_identity(cluster: Cluster) -> ProducerIdentity:
    """Raises KafkaRefusal, KafkaNotReady."""
    return cluster.patiently(lambda: _new_identity(cluster))


def _new_identity(cluster: Cluster) -> ProducerIdentity:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TRANSACTIONS_TIMEOUT_MS)
    answer = cluster.ask(request, InitProducerIdResponse)
    refuse_error(answer.error_code, "a producer id")
    return ProducerIdentity(answer.producer_id, answer.producer_epoch)
