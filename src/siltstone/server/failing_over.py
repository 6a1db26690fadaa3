"""Fails another node over with the parts of this one: its metadata, its buckets, and threads of their own for the log.

Only logs in a bucket are taken: every node can read them, and a seal fences whoever still writes. A log in files waits
for its node, which is started again on its machine; whether that machine is gone for good only a person knows.
"""

import msgspec

from siltstone.metadata.entities import NodeMetadata
from siltstone.metadata.store_id import store_id_of
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.randomness import Random
from siltstone.stream_engine.components import EngineComponents
from siltstone.stream_engine.failing_over import FailoverDone, fail_over
from siltstone.stream_engine.settings import EngineSettings
from siltstone.stream_engine.wal.opening import bucket_of_log, open_wal_of


class NodeFailover:
    """``calls``: threads that nothing else uses, as many as a log in a bucket needs (``wal_threads``)."""

    def __init__(
        self, components: EngineComponents, settings: EngineSettings, calls: BlockingCalls, rng: Random
    ) -> None:
        self._components = components
        self._settings = settings
        self._calls = calls
        self._rng = rng

    def reaches(self, node: NodeMetadata) -> bool:
        """Whether the node's log is in a bucket of this node's settings."""
        return bucket_of_log(node) in self._components.buckets.urls

    async def carry_out(self, node: NodeMetadata) -> FailoverDone:
        """Raises what ``fail_over`` raises, and WalOutOfReach."""
        components = self._components
        store_id = store_id_of(components.metadata.image)
        assert store_id is not None, "a node that is registered has put it there"
        wal = open_wal_of(
            node, self._settings.wal, components.buckets, store_id, self._calls, components.clock, self._rng
        )
        try:
            return await fail_over(
                msgspec.structs.replace(components, wal=wal), self._settings, node.node_id, node.wal_location
            )
        finally:
            await wal.close()
