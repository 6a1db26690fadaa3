"""Commits how far a streaming query has come for a consumer group without members: tools show its lag, and retention
waits for it [SS13].

The group that a query has by default is named after it, and belongs to it alone: where another program has committed
offsets under that name, they stay, and the query has no group. Each offset carries a text about the query, by which the
offsets of queries are known.
"""

import logging
import platform
from collections.abc import Callable, Iterable

import msgspec

from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.connection import parse_bootstrap, security_of_process
from siltstone.kafka_client.failures import LoginFailed, TlsFailed
from siltstone.kafka_client.groups import QueryText, commit_offsets, committed_texts, query_of_text
from siltstone.metadata.entities import NodeState
from siltstone.metadata.image import ImageView
from siltstone.metadata.node_address import node_address, stored_cluster_id
from siltstone.model.limits import MINUTE_MS, SECOND_MS
from siltstone.offline.context import MaintenanceContext
from siltstone.scanning.streaming.advancing import StreamLag
from siltstone.scanning.streaming.position import StreamPosition
from siltstone.scanning.streaming.query_names import StreamQuery
from siltstone.scanning.tail import NOT_THERE, OTHER_PROTOCOL, Stranger, refuse_stranger

log = logging.getLogger(__name__)

PAUSE_MS = 10 * SECOND_MS
"""After a commit that failed, the query reads on for this time before it tries again: a try may take as long."""

UNASKED_PAUSE_MS = 2 * MINUTE_MS
"""The same for a group that nobody asked for: a store without brokers is read at full speed."""


class GroupOfOthers(Exception):
    """Another program has committed offsets for the group."""


class StreamGroupProgress:
    """Remembers the position that was committed last, so the calls of an idle query cost nothing."""

    def __init__(self, group_id: str, query: StreamQuery | None = None) -> None:
        """``query`` is given if the group is the one that the query has by default."""
        self._group_id = group_id
        self._query = query
        self._is_ours = query is None
        self._is_over = False
        self._committed: StreamPosition | None = None
        self._silent_until_ms = 0.0

    def commit(
        self,
        source: MaintenanceContext,
        position: StreamPosition,
        behind: Callable[[], StreamLag],
    ) -> None:
        """Commits a position that the query has finished; ``behind`` returns what waits behind it. A failure is logged,
        and the query continues: the caller offers the position again, or a later one. Settings that do not fit end
        it only if the user named the group: raises LoginFailed, TlsFailed then."""
        now_ms = source.clock.monotonic_ms()
        if self._is_over or position == self._committed or now_ms < self._silent_until_ms:
            return
        pause_ms = PAUSE_MS if self._query is None else UNASKED_PAUSE_MS
        level = logging.WARNING if self._query is None else logging.INFO
        try:
            image = source.metadata.refresh()
            self._commit_by_any(source, image, position, self._text(behind()))
        except GroupOfOthers as taken:
            self._is_over = True
            log.warning("%s", taken)
        except (*NOT_THERE, LoginFailed, TlsFailed, Stranger) as trouble:
            if self._query is None and self._is_for_the_user(trouble):
                raise
            self._silent_until_ms = source.clock.monotonic_ms() + pause_ms
            log.log(level, "the offsets of group %s could not be committed: %s", self._group_id, trouble)
        else:
            self._committed = position

    def _is_for_the_user(self, trouble: Exception) -> bool:
        """Returns whether the settings have to be corrected. A listener of another protocol is waited for once an
        offset was committed: while a cluster changes its listeners, the settings are replaced a moment later."""
        if isinstance(trouble, OTHER_PROTOCOL):
            return self._committed is None
        return isinstance(trouble, LoginFailed | TlsFailed)

    def _text(self, lag: StreamLag) -> str:
        """Returns the text that each offset carries."""
        name, query_id = ("", "") if self._query is None else (self._query.name, self._query.id)
        shown = QueryText(
            name or self._group_id,
            query_id,
            lag.records,
            lag.size_bytes,
            round(lag.seconds, 3),
            platform.node(),
        )
        return msgspec.json.encode(shown).decode()

    def _commit_by_any(
        self, source: MaintenanceContext, image: ImageView, position: StreamPosition, text: str
    ) -> None:
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
                    self._refuse_others(cluster)
                    commit_offsets(cluster, self._group_id, offsets, text)
                    return
            except (*NOT_THERE, Stranger) as trouble:
                failure = trouble
        if failure is not None:
            raise failure

    def _refuse_others(self, cluster: Cluster) -> None:
        """Raises GroupOfOthers if an offset of the group was committed by no query."""
        if self._is_ours or self._query is None:
            return
        for key, text in committed_texts(cluster, [self._group_id])[self._group_id].items():
            if query_of_text(text) is None:
                raise GroupOfOthers(
                    f"group {self._group_id} has offsets of another program, such as of {key.topic}-{key.partition},"
                    " and they stay: this query shows no lag. Name the query otherwise, or give it a group by groupId"
                )
        self._is_ours = True


def _addresses(image: ImageView, listener: str) -> Iterable[str]:
    """Yields the address of each broker that has the listener, those of live nodes first. Raises ListenerMissing."""
    for node_id, _ in sorted(image.nodes.items(), key=lambda each: each[1].state is not NodeState.LIVE):
        if (address := node_address(image, node_id, listener)) is not None:
            yield address
