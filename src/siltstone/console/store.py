"""What pages read from: the newest image, and the store for scans and plans.

``OpenedStore`` follows the metadata of a store that this process has opened without a node. Blocking calls are made in
threads: a page waits, and the event loop does not.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import ParamSpec, Protocol, TypeVar

import msgspec

from siltstone.console.facts import KeptFacts
from siltstone.console.history import TrafficHistory
from siltstone.console.runs import ChangeRuns
from siltstone.console.views.silences import SeenSilences
from siltstone.console.visitors import Visitor
from siltstone.console.watchers import Watchers
from siltstone.costing.estimate import CostPrices
from siltstone.kafka_client.cluster import Cluster
from siltstone.kafka_client.connection import parse_bootstrap, security_of_process
from siltstone.metadata.commands import MovePartitions
from siltstone.metadata.history import entries_after, oldest_entry
from siltstone.metadata.image import MetadataImage
from siltstone.metadata.leases.board import time_of
from siltstone.metadata.log_entry import LogEntry
from siltstone.metadata.node_address import node_address
from siltstone.metadata.opening import newest_beats
from siltstone.metadata_tables.commits import commits_of
from siltstone.metadata_tables.moment import Commits, GroupCommit, Moment
from siltstone.model.console_limits import (
    CONSOLE_CLOSE_SECONDS_MAX,
    CONSOLE_GROUPS_MS,
    CONSOLE_QUERY_BYTES_MAX,
    CONSOLE_QUERY_SECONDS_MAX,
    CONSOLE_REFRESH_MS,
    CONSOLE_SEARCH_RECORDS_MAX,
    CONSOLE_THREADS,
    CONSOLE_WAITING_MAX,
)
from siltstone.model.errors import SiltstoneError, Unavailable
from siltstone.model.serving_limits import PRICE_OF_CORE, PRICE_OF_READS, PRICE_OF_STORAGE, PRICE_OF_WRITES
from siltstone.offline.context import MaintenanceContext, check_metadata_is_newest
from siltstone.offline.opening.settings import StoreSettings
from siltstone.offline.opening.store import Store, open_metadata_log
from siltstone.offline.settings import KindSettings
from siltstone.runtime.blocking import ThreadedCalls
from siltstone.runtime.clock import Clock
from siltstone.runtime.randomness import system_randomness

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger(__name__)


class ConsoleLimits(msgspec.Struct, frozen=True):
    """How much one page may read; ``model.console_limits`` has the reasons."""

    search_records_max: int = CONSOLE_SEARCH_RECORDS_MAX
    query_bytes_max: int = CONSOLE_QUERY_BYTES_MAX
    query_seconds_max: float = CONSOLE_QUERY_SECONDS_MAX


LIMITS = ConsoleLimits()
PRICES = CostPrices(PRICE_OF_WRITES, PRICE_OF_READS, PRICE_OF_STORAGE, PRICE_OF_CORE)


class TooManyWait(Unavailable):
    """All threads of the console are busy, and as many pages wait for one as may."""


class NoBrokerRuns(Unavailable):
    """No broker of the store runs, and the change is made by one."""


Targets = Sequence[tuple[str, int, int]]
"""Topic id, partition, and the node that shall lead it."""


class ConsoleStore(Protocol):
    """``place`` is how a command line names the store, such as ``--store ./siltstone-data``. ``tail`` says how scans
    read records that are in no object yet (``scanning.request.Tail``). ``runs_maintenance``: whether ``runs`` does."""

    limits: ConsoleLimits
    prices: CostPrices
    place: str
    tail: str
    runs_maintenance: bool
    history: TrafficHistory
    silences: SeenSilences
    facts: KeptFacts
    watchers: Watchers

    @property
    def settings(self) -> StoreSettings: ...
    @property
    def kind_settings(self) -> KindSettings: ...
    @property
    def context(self) -> MaintenanceContext: ...
    @property
    def image(self) -> MetadataImage:
        """The newest image that is known."""
        ...

    @property
    def trouble(self) -> str:
        """Why the image is not the newest; empty when it is."""
        ...

    def now_ms(self) -> int: ...

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Makes a blocking call in a thread, when one is free. Raises TooManyWait."""
        ...

    async def moment(self) -> Moment:
        """Returns the image, with the positions of groups, for the tables of metadata."""
        ...

    @property
    def runs(self) -> ChangeRuns:
        """What continues without its page."""
        ...

    def cluster(self, visitor: Visitor) -> Cluster:
        """Returns a client of the store's brokers, in the name of the visitor, for a ``with`` statement in a thread.
        Raises NoBrokerRuns."""
        ...

    def move(self, visitor: Visitor, targets: Targets) -> None:
        """Has partitions moved, and returns when that is recorded. Blocks. Raises refusals of MovePartitions, or of a
        broker."""
        ...

    def newest_image(self) -> MetadataImage:
        """Returns the image after a look at the metadata. Blocks. Raises Unavailable."""
        ...

    async def refresh(self) -> None:
        """Waits until the image has what was changed before. Raises Unavailable."""
        ...


def moment_with_log(
    store: ConsoleStore, image: MetadataImage, *, commits: Commits, ends: Mapping[int, int] | None = None
) -> Moment:
    """Returns a moment whose entries are read from the log of the metadata when a query names their table."""

    def entries() -> Iterator[tuple[int, LogEntry]]:
        with closing(open_metadata_log(store.settings, store.context.clock, create=False)) as opened:
            yield from entries_after(opened, oldest_entry(opened) - 1, image.version)

    return Moment(image, store.now_ms(), commits=commits, entries=entries, ends=ends)


def silent_since(url: str, clock: Clock, node_id: int) -> int | None:
    """Returns the time of a node's last beat, by the lease board of the metadata at ``url``; None if it is not known.
    Blocks."""
    try:
        beats = newest_beats(url, clock)
    except SiltstoneError:
        return None
    return next((time_of(each) for each in beats if each.node_id == node_id), None)


class PageCalls:
    """The threads in which pages read: CONSOLE_THREADS, and at most CONSOLE_WAITING_MAX calls wait for one."""

    def __init__(self) -> None:
        self._threads = ThreadedCalls("console", CONSOLE_THREADS)
        self._under_way = 0

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Raises TooManyWait."""
        if self._under_way >= CONSOLE_THREADS + CONSOLE_WAITING_MAX:
            raise TooManyWait(
                "too many pages of the console are being made: close some, and load this one again"
            )
        self._under_way += 1
        try:
            return await self._threads.run(call, *args, **kwargs)
        finally:
            self._under_way -= 1

    async def close(self) -> None:
        """Waits for the calls under way, at most CONSOLE_CLOSE_SECONDS_MAX. Other tasks run meanwhile, because a scan
        may ask the broker of this event loop for the newest records."""
        await self._threads.end_within(CONSOLE_CLOSE_SECONDS_MAX)


class OpenedStore:
    """A store without a node: its metadata is read each second while somebody looks at pages, and each minute
    otherwise, so that the chart of the traffic has no holes."""

    tail = "auto"
    runs_maintenance = True

    def __init__(
        self,
        store: Store,
        place: str,
        clock: Clock,
        prices: CostPrices = PRICES,
        limits: ConsoleLimits = LIMITS,
    ) -> None:
        self.prices = prices
        self.limits = limits
        self.place = place
        self.history = TrafficHistory()
        self.silences = SeenSilences(lambda node_id: silent_since(self.settings.metadata, clock, node_id))
        self.facts = KeptFacts(clock)
        self.watchers = Watchers(clock, system_randomness())
        self.trouble = ""
        self._store = store
        self._clock = clock
        self._calls = PageCalls()
        self._following = ThreadedCalls("console-metadata", 1)
        self.runs = ChangeRuns(store.metadata.now_ms)
        self._commits: list[GroupCommit] | None = None
        self._commits_ms = 0.0

    @property
    def settings(self) -> StoreSettings:
        return self._store.settings

    @property
    def kind_settings(self) -> KindSettings:
        return self._store.kind_settings

    @property
    def context(self) -> MaintenanceContext:
        return self._store.context

    @property
    def image(self) -> MetadataImage:
        return self._store.metadata.image

    def now_ms(self) -> int:
        return self._store.metadata.now_ms()

    async def run(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._calls.run(call, *args, **kwargs)

    async def moment(self) -> Moment:
        """The positions of groups are those in objects, read again after CONSOLE_GROUPS_MS."""
        now_ms, image = self._clock.monotonic_ms(), self.image
        if self._commits is None or now_ms - self._commits_ms > CONSOLE_GROUPS_MS:
            self._commits, self._commits_ms = await self.run(commits_of, self.context, image), now_ms
        found = self._commits
        return moment_with_log(self, image, commits=lambda: found)

    def cluster(self, visitor: Visitor) -> Cluster:
        """The brokers are asked as SILTSTONE_CLIENT_CONFIG says, as by the commands."""
        security = security_of_process()
        image, listener = self.image, security.settings.listener
        live = sorted(each.node_id for each in image.nodes.values() if each.is_live and each.listeners)
        found = [address for each in live if (address := node_address(image, each, listener))]
        if not found:
            raise NoBrokerRuns(
                "no broker of this store runs, and the change is made by one: start it with siltstone serve"
            )
        addresses = parse_bootstrap(",".join(found), "node-address")
        return Cluster(addresses, self._clock, self.context.rng, security)

    def move(self, visitor: Visitor, targets: Targets) -> None:
        check_metadata_is_newest(self.context)
        self.context.metadata.execute(MovePartitions(tuple(targets)))

    def newest_image(self) -> MetadataImage:
        return self._store.metadata.refresh()

    async def refresh(self) -> None:
        await self._following.run(self._store.metadata.refresh)
        self.facts.forget()
        self._commits = None

    async def follow(self) -> None:
        """Follows the metadata until it is cancelled. While the metadata cannot be reached, pages show what was read
        last, and say so."""
        while True:
            try:
                image = await self._following.run(self._look)
                self.trouble = ""
                await self.history.add(image, self.now_ms())
            except SiltstoneError as trouble:
                self.trouble = str(trouble)
            except Exception as failure:
                log.exception("the metadata cannot be followed")
                self.trouble = f"the metadata cannot be read: {failure}"
            await self._clock.sleep_ms(CONSOLE_REFRESH_MS)

    def _look(self) -> MetadataImage:
        """Reads the metadata, and the beat of a node that has become silent. In a thread."""
        image = self._store.metadata.refresh()
        self.silences.add(image, self.now_ms())
        return image

    async def close(self) -> None:
        """Waits for the calls under way, as ``PageCalls.close`` does."""
        await self.runs.close()
        await self._calls.close()
        await self._following.end_within(CONSOLE_CLOSE_SECONDS_MAX)
