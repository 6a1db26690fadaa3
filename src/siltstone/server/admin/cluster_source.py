"""Reads the metrics of what a broker knows of other processes from the metadata: the nodes of the cluster, and when
maintenance last ran, wherever that was. So a maintenance service that nobody started, or that died, is seen."""

from collections.abc import AsyncIterator, Callable
from enum import Enum

from siltstone.maintenance.kinds import KIND_NAMES
from siltstone.maintenance.pipeline.set_aside import last_runs
from siltstone.metadata.entities import NodeMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.server.admin.scrape import Collected


class NodeState(Enum):
    LIVE = "live"
    FENCED = "fenced"
    FAILOVER = "failover"


def state_of(node: NodeMetadata) -> NodeState:
    if node.failover:
        return NodeState.FAILOVER
    return NodeState.FENCED if node.is_fenced else NodeState.LIVE


class ClusterSource:
    """``now_ms`` is the store's time. A kind that has never run counts from the first scrape."""

    def __init__(self, image: Callable[[], MetadataImage], now_ms: Callable[[], int]) -> None:
        self._image = image
        self._now_ms = now_ms
        self._first_ms: int | None = None

    async def collect(self, collected: Collected) -> AsyncIterator[None]:
        image, now_ms = self._image(), self._now_ms()
        if self._first_ms is None:
            self._first_ms = now_ms
        states = [state_of(node) for node in image.nodes.values()]
        for state in NodeState:
            collected.add("nodes", states.count(state), state.value)
        runs = last_runs(image)
        for kind in KIND_NAMES:
            ended_ms = runs[kind].ended_ms if kind in runs else self._first_ms
            collected.add("last_maintenance_age_seconds", max(0, now_ms - ended_ms) / 1000, kind)
        yield
