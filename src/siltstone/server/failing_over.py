"""Fails another node over with the parts of this one: its metadata, its buckets, and threads of their own for the log.

A log in a bucket can be read by every node, and its seal fences a process that still writes. A log in files is taken by
nodes on the same machine, where the lock of its folder distinguishes a process that has ended from one that is stopped.
The log of another machine waits for its node, because only a person knows whether that machine is gone for good. A
person who attaches its disk to this machine names the log as an attached one (``wal.attached``).
"""

from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import unquote, urlsplit

import msgspec

from siltstone.metadata.decisions.membership import claimer_of
from siltstone.metadata.entities import NodeMetadata
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.refusals import NodeInUse
from siltstone.metadata.store_id import store_id_of
from siltstone.model.limits import SECOND_MS
from siltstone.runtime.blocking import BlockingCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random
from siltstone.stream_engine.components import EngineComponents
from siltstone.stream_engine.failing_over import FailoverDone, fail_over
from siltstone.stream_engine.opening import FAILOVER_LOOK_MS
from siltstone.stream_engine.settings import EngineSettings
from siltstone.stream_engine.wal.attached import AttachedLog
from siltstone.stream_engine.wal.opening import WalOutOfReach, bucket_of_log, open_wal_of
from siltstone.stream_engine.wal.port import WalInUse, WriteAheadLog

NO_LOGS: Mapping[int, AttachedLog] = {}

LOCKED_MS_MAX = 5 * SECOND_MS
"""How long a start waits for a log that is locked and that no node has claimed: a node that fails this one over locks
the log before the claim, and unlocks it after the claim's end."""


class NodeFailover:
    """``host`` is this machine's name, as it is in the locations of logs in files. ``attached``: the attached logs, by
    node. ``calls``: threads that nothing else uses, as many as a log in a bucket needs (``wal_threads``)."""

    def __init__(
        self,
        components: EngineComponents,
        settings: EngineSettings,
        calls: BlockingCalls,
        rng: Random,
        host: str = "",
        attached: Mapping[int, AttachedLog] = NO_LOGS,
    ) -> None:
        self._components = components
        self._settings = settings
        self._calls = calls
        self._rng = rng
        self._host = host
        self._attached = attached

    def _attached_log_of(self, node: NodeMetadata) -> AttachedLog | None:
        """Returns None if no log of the node is attached, or if the node has returned since and has opened streams with
        another log."""
        log = self._attached.get(node.node_id)
        return log if log is not None and log.is_newest_of(node) else None

    def reaches(self, node: NodeMetadata) -> bool:
        """Returns whether the node's log is in a bucket of this node's settings, in files of this machine, or attached
        to it. A location that names no machine may be on any machine."""
        if self._attached_log_of(node) is not None:
            return True
        place = urlsplit(node.wal_location)
        if place.scheme == "file":
            return bool(self._host) and unquote(place.netloc) == self._host
        return bucket_of_log(node) in self._components.buckets.urls

    async def carry_out(self, node: NodeMetadata) -> FailoverDone:
        """Fails the node over. Raises what ``fail_over`` raises, NodeInUse when a process holds the log, which is
        perhaps only stopped, and WalOutOfReach."""
        components, attached = self._components, self._attached_log_of(node)
        location = node.wal_location if attached is None else attached.folder.as_uri()
        store_id = store_id_of(components.metadata.image)
        assert store_id is not None, "a node that is registered has put it there"
        try:
            wal = await self._calls.run(  # in another thread: a disk may hang
                open_wal_of,
                node, self._settings.wal, components.buckets, store_id, self._calls, components.clock, self._rng,
                self._host, attached,
            )  # fmt: skip
        except WalInUse as refusal:
            raise NodeInUse(f"node {node.node_id} may still run: {refusal}") from refusal
        except OSError as trouble:
            raise WalOutOfReach(
                f"the write-ahead log of node {node.node_id} in {location} cannot be opened: {trouble}"
            ) from trouble
        try:
            return await fail_over(
                msgspec.structs.replace(components, wal=wal), self._settings, node.node_id, location
            )
        finally:
            await wal.close()


async def wal_in_turn(
    open_log: Callable[[], WriteAheadLog],
    calls: BlockingCalls,
    refresh: Callable[[], Awaitable[MetadataImage]],
    node_id: int,
    clock: Clock,
) -> WriteAheadLog:
    """Opens the log of the starting node ``node_id``. While another node of this machine has locked it to fail this one
    over, it waits. Raises WalInUse when a process uses the log for anything else, and what ``refresh`` raises."""
    given_up_ms = clock.monotonic_ms() + LOCKED_MS_MAX
    while True:
        try:
            return await calls.run(open_log)
        except WalInUse:
            image = (
                await refresh()
            )  # a node is fenced before its log is locked: an older image may say that it lives
            node = image.nodes.get(node_id)
            if node is None or node.is_live:
                raise
            if claimer_of(image, node) is not None:
                given_up_ms = clock.monotonic_ms() + LOCKED_MS_MAX
            elif clock.monotonic_ms() >= given_up_ms:
                raise
        await clock.sleep_ms(FAILOVER_LOOK_MS)
