"""A streaming query asks owners for the ends of their tails again and again, over connections that stay open.

``scanning.tail`` asks once, for a scan. A streaming query asks several times a second, and continues when an owner
cannot be asked: it reads the objects now and the tail later. A warning says so once a minute. Settings with which no
owner could ever be asked are an error; after that, a listener of another protocol is waited for as well.
"""

import logging
from collections.abc import Callable, Sequence

from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.connection import Security, parse_bootstrap, security_of_process
from siltstone.kafka_client.offsets import LATEST, offsets_at
from siltstone.metadata.entities import NO_NODE, StreamState
from siltstone.metadata.image import ImageView
from siltstone.metadata.node_address import (
    ListenerMissing,
    listener_addresses,
    node_address,
    stored_cluster_id,
)
from siltstone.model.limits import MINUTE_MS, SECOND_MS
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random
from siltstone.scanning.planning import ScanPartition
from siltstone.scanning.request import Isolation
from siltstone.scanning.tail import (
    LEVELS,
    NOT_THERE,
    OTHER_PROTOCOL,
    Owner,
    Stranger,
    TailEnds,
    refuse_stranger,
    without_address,
)

log = logging.getLogger(__name__)

PAUSE_MS = 1 * SECOND_MS
"""An owner that could not be asked is not asked again for this time."""

WARNING_INTERVAL_MS = 1 * MINUTE_MS

Place = tuple[int, str]
"""Node id and address."""


def _by_environment() -> None:
    return None


class TailOwners:
    """Connections to the owners of open partitions. ``security`` is asked when there is a new one to make, because the
    settings of a client may change while a query runs: how it connects, and by which listener."""

    def __init__(
        self,
        clock: Clock,
        rng: Random,
        security: Callable[[], Security | None] = _by_environment,
        isolation: Isolation = Isolation.COMMITTED,
    ) -> None:
        self._security = security
        self._asked: Security | None = None
        self._isolation = isolation
        self._clock = clock
        self._rng = rng
        self._clusters: dict[Place, Cluster] = {}
        self._known: dict[Place, set[str]] = {}
        self._silent_until_ms: dict[Place, float] = {}
        self._warned_ms: float | None = None
        self._has_asked = False

    def ends(self, image: ImageView, partitions: Sequence[ScanPartition]) -> TailEnds:
        """Returns the ends of the partitions that are open. A partition whose owner cannot be asked ends
        where its objects end. The connections stay open: the caller does not close what is returned. Raises
        ListenerMissing, LoginFailed, TlsFailed."""
        ends = TailEnds(stored_cluster_id(image) or "")
        by_place = self._by_place(image, partitions)
        if by_place is None or any(self._is_new(place) for place in by_place):
            self._asked = self._security() or security_of_process()
            by_place = self._by_listener(image, partitions)
        for place in self._clusters.keys() - by_place.keys():
            self._close(place)
        for place, theirs in by_place.items():
            self._ask(ends, image, place, theirs)
        return ends

    def _by_place(
        self, image: ImageView, partitions: Sequence[ScanPartition]
    ) -> dict[Place, list[ScanPartition]] | None:
        """Returns None if the listener that was named is gone: another one may be named by now."""
        try:
            return self._by_listener(image, partitions)
        except ListenerMissing:
            return None

    def _by_listener(
        self, image: ImageView, partitions: Sequence[ScanPartition]
    ) -> dict[Place, list[ScanPartition]]:
        by_place: dict[Place, list[ScanPartition]] = {}
        for each in partitions:
            if each.stream.state is StreamState.OPENED and each.stream.owner != NO_NODE:
                address = node_address(image, each.stream.owner, self._listener)
                by_place.setdefault((each.stream.owner, address or ""), []).append(each)
        return by_place

    @property
    def _listener(self) -> str:
        return "" if self._asked is None else self._asked.settings.listener

    def _is_new(self, place: Place) -> bool:
        return place not in self._clusters and not self._is_silent(place)

    def _is_silent(self, place: Place) -> bool:
        return self._clock.monotonic_ms() < self._silent_until_ms.get(place, 0)

    def close(self) -> None:
        for place in list(self._clusters):
            self._close(place)

    def _ask(self, ends: TailEnds, image: ImageView, place: Place, theirs: Sequence[ScanPartition]) -> None:
        if self._is_silent(place):
            return
        node_id, address = place
        try:
            cluster = self._cluster(place)
            known = self._known.setdefault(place, set())
            for topic in {each.topic.topic_id: each.topic for each in theirs}.values():
                if topic.topic_id not in known:
                    refuse_stranger(cluster, stored_cluster_id(image), topic.name, topic.topic_id)
                    known.add(topic.topic_id)
            wanted = [TopicPartition(*each.key) for each in theirs]
            found = offsets_at(cluster, wanted, LATEST, LEVELS[self._isolation])
        except (*NOT_THERE, *OTHER_PROTOCOL, Stranger) as trouble:
            if isinstance(trouble, OTHER_PROTOCOL) and not self._has_asked:
                raise
            self._close(place)
            self._silent_until_ms[place] = self._clock.monotonic_ms() + PAUSE_MS
            self._warn(theirs, node_id, address, trouble)
            return
        self._has_asked = True
        owner = Owner(node_id, address, cluster, listener_addresses(image, node_id))
        for each in theirs:
            ends.add(each, found[TopicPartition(*each.key)].offset, owner)

    def _cluster(self, place: Place) -> Cluster:
        if place not in self._clusters:
            if not place[1]:
                raise Stranger(without_address(self._listener))
            bootstrap = parse_bootstrap(place[1], "node-address")
            self._clusters[place] = Cluster(bootstrap, self._clock, self._rng, self._asked)
        return self._clusters[place]

    def _close(self, place: Place) -> None:
        self._known.pop(place, None)
        if (cluster := self._clusters.pop(place, None)) is not None:
            cluster.close()

    def _warn(self, theirs: Sequence[ScanPartition], node_id: int, address: str, trouble: Exception) -> None:
        now_ms = self._clock.monotonic_ms()
        if self._warned_ms is not None and now_ms - self._warned_ms < WARNING_INTERVAL_MS:
            return
        self._warned_ms = now_ms
        log.warning(
            "the query reads %d partitions of node %d only as far as they are in objects, because its broker at %s"
            " cannot be asked for the rest: %s",
            len(theirs), node_id, address or "an unknown address", trouble,
        )  # fmt: skip
