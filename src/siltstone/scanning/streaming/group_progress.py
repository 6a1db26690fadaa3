"""Commits how far a streaming query has come for a consumer group without members: tools show its lag, and retention
waits for it [SS13]."""

import logging
import platform
from collections.abc import Iterable

from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.connection import parse_bootstrap, security_of_process
from siltstone.kafka_client.groups import commit_offsets
from siltstone.metadata.entities import NodeState
from siltstone.metadata.image import ImageView
from siltstone.metadata.node_address import node_address, stored_cluster_id
from siltstone.model.limits import SECOND_MS
from siltstone.offline.context import MaintenanceContext
from siltstone.scanning.streaming.position import StreamPosition
from siltstone.scanning.tail import NOT_THERE, OTHER_PROTOCOL, Stranger, refuse_stranger

log = logging.getLogger(__name__)

STREAMING_QUERY = "streaming query"
"""The beginning of the text that is committed with the offsets, so that tools tell a query from a consumer."""

PAUSE_MS = 10 * SECOND_MS
"""After a commit that failed, the query reads on for this time before it tries again: a try may take as long."""


class StreamGroupProgress:
    """Remembers the position that was committed last, so the calls of an idle query cost nothing."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._metadata = f"{STREAMING_QUERY} on {platform.node()}"
        self._committed: StreamPosition | None = None
        self._silent_until_ms = 0.0

    def commit(self, source: MaintenanceContext, position: StreamPosition) -> None:
        """Commits a position that the query has finished. A failure is logged, and the query continues: the caller
        offers the position again, or a later one. Settings with which nothing was ever committed are an error: raises
        LoginFailed, TlsFailed."""
        if position == self._committed or source.clock.monotonic_ms() < self._silent_until_ms:
            return
        try:
            image = source.metadata.refresh()
            self._commit_by_any(source, image, position)
        except (*NOT_THERE, *OTHER_PROTOCOL, Stranger) as trouble:
            if isinstance(trouble, OTHER_PROTOCOL) and self._committed is None:
                raise
            self._silent_until_ms = source.clock.monotonic_ms() + PAUSE_MS
            log.warning("the offsets of group %s could not be committed: %s", self._group_id, trouble)
        else:
            self._committed = position

    def _commit_by_any(self, source: MaintenanceContext, image: ImageView, position: StreamPosition) -> None:
        """Asks one broker after the other to find the coordinator: an address outlives its node, so the broker there
        may be gone, or of another store. Raises the failure of the last one."""
        offsets = {
            TopicPartition(position.names[topic_id], number): offset
            for (topic_id, number), offset in position.offsets.items()
            if topic_id in image.topics
        }
        if not offsets:
            return
        topic_id = next(each for each, _ in position.offsets if each in image.topics)
        failure: Exception | None = None
        security = source.security or security_of_process()
        for address in _addresses(image, security.settings.listener):
            try:
                bootstrap = parse_bootstrap(address, "node-address")
                with Cluster(bootstrap, source.clock, source.rng, security) as cluster:
                    refuse_stranger(cluster, stored_cluster_id(image), position.names[topic_id], topic_id)
                    commit_offsets(cluster, self._group_id, offsets, self._metadata)
                    return
            except (*NOT_THERE, Stranger) as trouble:
                failure = trouble
        if failure is not None:
            raise failure


def _addresses(image: ImageView, listener: str) -> Iterable[str]:
    """Yields the address of each broker that has the listener, those of live nodes first. Raises ListenerMissing."""
    for node_id, _ in sorted(image.nodes.items(), key=lambda each: each[1].state is not NodeState.LIVE):
        if (address := node_address(image, node_id, listener)) is not None:
            yield address
