"""Replicas assigned by hand, for CreateTopics and CreatePartitions: this broker is the only one there is."""

from collections.abc import Sequence

from siltstone.broker.parts import BrokerParts
from siltstone.broker.topics.refusals import InvalidReplicaAssignment


def check_replicas(parts: BrokerParts, broker_ids: Sequence[int]) -> None:
    """Of one partition. Raises InvalidReplicaAssignment."""
    if not broker_ids:
        raise InvalidReplicaAssignment("The manual partition assignment includes an empty replica list.")
    for broker_id in broker_ids:
        if broker_id != parts.node_id:
            raise InvalidReplicaAssignment(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            )
    if len(broker_ids) > 1:
        raise InvalidReplicaAssignment(
            f"The manual partition assignment includes the broker {parts.node_id} more than once."
        )
