"""The console of a running broker, at its admin listeners: what pages read from, and who may see what.

Pages read the image that the broker itself goes by. Scans, queries and plans run in threads of the console's own. Runs
of maintenance do not start here: they would take the processor from the broker.

A listener with a login shows the pages to users of the store, each with the rights that the same requests of Kafka's
protocol would need: topics with DESCRIBE, their messages with READ, objects, maintenance and nodes with DESCRIBE of the
cluster. Changes are requests of that protocol, which the broker answers in the visitor's name (``broker_calls``). A
listener without a login is on this machine alone, and its pages change nothing.
"""

import hmac
import shlex
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import ParamSpec, TypeVar

from starlette.requests import Request

from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import Question
from siltstone.console.application import Console
from siltstone.console.facts import KeptFacts
from siltstone.console.history import SAMPLE_MS, TrafficHistory
from siltstone.console.pages import PAGES
from siltstone.console.runs import ChangeRuns
from siltstone.console.store import ConsoleLimits, PageCalls, Targets, moment_with_log, silent_since
from siltstone.console.views.silences import SeenSilences
from siltstone.console.visitors import UnknownVisitor, Visitor
from siltstone.console.watchers import Watchers
from siltstone.kafka_client.cluster import Cluster, TopicPartition
from siltstone.kafka_client.reassignments import move_partitions
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.service import MetadataService
from siltstone.metadata_tables.moment import GroupCommit, Moment
from siltstone.model.access import ANONYMOUS, Principal
from siltstone.model.acls import CLUSTER_NAME, AclOperation, AclResourceType
from siltstone.model.console_limits import CONSOLE_CLOSE_SECONDS_MAX
from siltstone.model.serving_limits import GROUP_OFFSETS_MAX
from siltstone.object_store.buckets import Buckets
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.opening.store import kind_settings_of
from siltstone.offline.settings import KindSettings
from siltstone.runtime.blocking import ThreadedCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import Random
from siltstone.runtime.tasks import TaskGroup
from siltstone.server.admin.access import AdminAccess
from siltstone.server.admin.broker_calls import BrokerCalls
from siltstone.server.admin.http_request import HttpCaller, RequestRefused, request_of
from siltstone.server.admin.http_serving import Application
from siltstone.server.settings.node import NodeSettings

P = ParamSpec("P")
T = TypeVar("T")

_STALE_AFTER_MS = 10_000
_CHALLENGE = 'Basic realm="siltstone", charset="UTF-8"'


class NodeConsoleStore:
    """The store of a running node. Scans ask this store's brokers for records that are in no object yet, unless the
    brokers want a login: the console has none, and then shows what is committed."""

    runs_maintenance = False
    limits = ConsoleLimits()

    def __init__(
        self,
        settings: NodeSettings,
        parts: BrokerParts,
        metadata: MetadataService,
        buckets: Buckets,
        clock: Clock,
        rng: Random,
        *,
        tail: str,
        calls: BrokerCalls,
    ) -> None:
        self.place = f"--store {shlex.quote(str(settings.folder))}"
        self.tail = tail
        self.history = TrafficHistory()
        self.silences = SeenSilences(partial(silent_since, settings.metadata, clock))
        self.facts = KeptFacts(clock)
        self.watchers = Watchers(clock, rng)
        self._seen = MetadataImage()
        self._looks = ThreadedCalls("console-silences", 1)
        self.settings = settings
        self.prices = settings.admin.prices.of_costs
        self._metadata = metadata
        self._parts = parts
        self._clock = clock
        self._calls = PageCalls()
        self._broker = calls
        self.runs = ChangeRuns(self.now_ms)
        self.context = MaintenanceContext(
            metadata.client, buckets, clock, rng, settings.maintenance.gc.quota_bytes
        )

    @property
    def kind_settings(self) -> KindSettings:
        return kind_settings_of(self.settings)

    @property
    def image(self) -> MetadataImage:
        return self._metadata.image

    @property
    def trouble(self) -> str:
        age_ms = self._metadata.image_age_ms
        return (
            ""
            if age_ms < _STALE_AFTER_MS
            else f"it was read {age_ms / 1000:.0f} s ago, and cannot be reached since"
        )

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._metadata.clock_offset_ms

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._calls.run(call, *args, **kwargs)

    async def moment(self) -> Moment:
        """Positions of groups, and ends of partitions, are the newest where this broker leads them."""
        commits, ends = self._positions()
        return moment_with_log(self, self.image, commits=lambda: commits, ends=ends)

    def _positions(self) -> tuple[list[GroupCommit], dict[int, int]]:
        parts, commits, ends = self._parts, [], {}
        for known in parts.groups.known():
            for (topic, index), each in known.offsets.items():
                commits.append(
                    GroupCommit(
                        known.group.group_id, topic, index, each.offset, each.committed_ms, each.metadata
                    )
                )
                found = parts.topics.by_name(topic)
                opened = None if found is None else parts.partitions.opened(found.id, index)
                if found is not None and opened is not None and not opened.is_closed:
                    ends[found.metadata.partitions[index].data_stream_id] = opened.high_watermark
            if len(commits) > GROUP_OFFSETS_MAX:
                break
        return commits, ends

    def cluster(self, visitor: Visitor) -> Cluster:
        return self._broker.cluster(visitor)

    def move(self, visitor: Visitor, targets: Targets) -> None:
        """Asks the broker, as Kafka's tools do: so the visitor needs the right to alter the cluster."""
        topics = self.image.topics
        by_node: dict[int, list[TopicPartition]] = {}
        for topic_id, partition, node_id in targets:
            by_node.setdefault(node_id, []).append(TopicPartition(topics[topic_id].name, partition))
        with self.cluster(visitor) as cluster:
            for node_id, partitions in by_node.items():
                move_partitions(cluster, partitions, node_id)

    def newest_image(self) -> MetadataImage:
        return self._metadata.image

    async def refresh(self) -> None:
        """The image has it already: the broker has changed it."""
        self.facts.forget()

    async def sample(self) -> None:
        """Takes samples of the traffic until it is cancelled."""
        while True:
            await self.history.add(self.image, self.now_ms())
            await self._clock.sleep_ms(SAMPLE_MS)

    async def watch_nodes(self) -> None:
        """Notes which nodes are silent until it is cancelled. The lease board is read in a thread."""
        while True:
            image = self.image
            if not image.nodes.is_unchanged_from(self._seen.nodes):
                self._seen = image
                await self._looks.run(self.silences.add, image, self.now_ms())
            await self._metadata.newer_than(image.version, SAMPLE_MS)

    async def close(self) -> None:
        """Requests of visitors end first. Then the threads, without which the node ends all the same: it has records to
        upload."""
        self._broker.close()
        await self.runs.close()
        await self._calls.close()
        await self._looks.end_within(CONSOLE_CLOSE_SECONDS_MAX)


class UsersAccess:
    """Who visits at an admin listener. Where clients have to log in, or to show a certificate (``clients_prove``),
    visitors have to, too: else the console would show records to everybody on the machine."""

    def __init__(self, access: AdminAccess, rng: Random, *, clients_prove: bool) -> None:
        self._access = access
        self._clients_prove = clients_prove
        self._key = rng.getrandbits(256).to_bytes(32, "big")

    async def visitor_of(self, request: Request) -> Visitor | UnknownVisitor:
        """Raises RequestRefused when the users are not known now."""
        caller: HttpCaller = request.scope["siltstone.caller"]
        try:
            principal = await self._access.principal_of(request_of(request.scope, caller))
        except RequestRefused as refusal:
            if refusal.status == 401:
                return UnknownVisitor(str(refusal), _CHALLENGE)
            raise
        if principal is None and self._clients_prove:
            return UnknownVisitor(
                "the clients of this broker prove who they are, so visitors of the console do, too: set"
                " listener.ADMIN.protocol=SASL_SSL, or require certificates, listener.ADMIN.tls_client_auth=required"
            )
        asks = partial(self._may, caller.host, principal or ANONYMOUS)
        is_known = principal is not None
        return Visitor(
            str(principal) if is_known else "everybody on this machine",
            hmac.digest(self._key, str(principal).encode(), "sha256").hex() if is_known else "",
            may_change=is_known,
            alters_cluster=asks(AclOperation.ALTER, AclResourceType.CLUSTER, CLUSTER_NAME),
            alters_configs=partial(asks, AclOperation.ALTER_CONFIGS, AclResourceType.TOPIC),
            describes_configs=partial(asks, AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC),
            commits=partial(asks, AclOperation.READ, AclResourceType.GROUP),
            sees_all=self._access.users is not None and self._access.users.may_see_all,
            principal=principal or ANONYMOUS,
            host=caller.host,
            sees=partial(asks, AclOperation.DESCRIBE, AclResourceType.TOPIC),
            reads=partial(asks, AclOperation.READ, AclResourceType.TOPIC),
            sees_group=partial(asks, AclOperation.DESCRIBE, AclResourceType.GROUP),
            describes_cluster=asks(AclOperation.DESCRIBE, AclResourceType.CLUSTER, CLUSTER_NAME),
        )

    def _may(
        self, host: str, principal: Principal, operation: AclOperation, kind: AclResourceType, name: str
    ) -> bool:
        users = self._access.users
        return users is not None and users.may(host, principal, Question(operation, kind, name))


@asynccontextmanager
async def console_of(
    store: NodeConsoleStore,
    access: AdminAccess,
    is_host: Callable[[str], bool],
    rng: Random,
    *,
    clients_prove: bool,
) -> AsyncIterator[Application]:
    """Yields the console as an application."""
    visitors = UsersAccess(access, rng, clients_prove=clients_prove)
    console = Console(store, visitors, PAGES, is_host)
    tasks = TaskGroup("console", lambda _: None)
    tasks.start("traffic", store.sample())
    tasks.start("silences", store.watch_nodes())
    try:
        yield console.application
    finally:
        console.close()
        await tasks.cancel()
        await store.close()
