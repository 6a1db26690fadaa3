"""Charges clients for what they use, and mutes their connections when they are above a limit of the store.

A handler charges when it knows the amount, and the answer says for how long the client is throttled. Clients may
ignore that, so the connection is *muted*: until ``muted_until_ms`` the network begins none of its requests and reads
nothing more from it. A mute has at most MUTED_MS_MAX; the rest of the debt stays with the counter, for the next charge.

While the store has no quotas, nothing is counted: a request costs one comparison of images. Limits count for each node
by itself, as in Kafka. Nodes are charged to nobody. ``windows`` has the arithmetic.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

import msgspec

from siltstone.broker.quotas.precedence import WinningLimit, limit_of_address, winning_limit
from siltstone.broker.quotas.windows import FULL_WINDOWS, MeasuredRate, MutationBucket
from siltstone.broker.request import ConnectionContext, KeptQuotas
from siltstone.metadata.image import MetadataImage
from siltstone.model.access import NODE
from siltstone.model.errors import Unavailable
from siltstone.model.limits import SECOND_MS
from siltstone.model.quotas import QuotaKey
from siltstone.model.serving_limits import (
    MUTED_MS_MAX,
    QUOTA_COUNTER_FORGOTTEN_MS,
    QUOTA_COUNTERS_MAX,
    QUOTA_WINDOW_MS,
)
from siltstone.runtime.clock import Clock

T = TypeVar("T")

CounterKey = tuple[QuotaKey, str | None, str | None]
"""What is limited, user and client id, or the address as the user."""


class MutationsThrottled(Unavailable):
    """A client has changed too many partitions: it tries again after the time that the answer says."""


class ThrottleStatistics(msgspec.Struct, frozen=True):
    """By what is limited: how many answers told a client to wait, and for how many ms together. ``counters``: how many
    are kept."""

    throttled: dict[QuotaKey, int]
    throttled_ms: dict[QuotaKey, float]
    counters: int


class QuotaCounter:
    """What the clients that share a limit have used."""

    def __init__(self, key: QuotaKey, now_ms: float) -> None:
        self.key = key
        self.limit = 0.0
        self.used_ms = now_ms
        self.is_forgotten = False
        self.rate = MeasuredRate()
        self.bucket = MutationBucket()
        self._owed_until_ms = 0.0

    def charge(self, amount: float, now_ms: float) -> float:
        """Returns how long the client has to wait from now on, the rest of an earlier debt included. It does what
        ``tried`` and ``note_debt`` do, in one call, because every produce comes here."""
        self.used_ms = now_ms
        owed_ms = self.rate.charge(amount, self.limit, now_ms)
        owed_ms = max(owed_ms, self._owed_until_ms - now_ms)
        self._owed_until_ms = now_ms + owed_ms
        return owed_ms

    def note_debt(self, owed_ms: float, now_ms: float) -> None:
        self._owed_until_ms = now_ms + owed_ms

    def tried(self, amount: float, now_ms: float) -> float:
        """Does the same, and notes no debt: the amount may be taken back."""
        self.used_ms = now_ms
        self.rate.add(amount, now_ms)
        return max(self._owed_until_ms - now_ms, self.rate.debt_ms(self.limit, now_ms))

    def take_back(self, amount: float, now_ms: float) -> None:
        self.rate.add(-amount, now_ms)


class _KeptCounter(msgspec.Struct, eq=False):
    """What a connection is charged to, looked up once until a quota, its name or its client id changes."""

    key: CounterKey
    limit: float
    counter: QuotaCounter
    is_of_others: bool


class Throttling:
    """``image`` returns the newest image, ``live_nodes`` the number of live nodes: any of them takes requests that
    change partitions, so each may do its part of that limit."""

    def __init__(
        self, image: Callable[[], MetadataImage], clock: Clock, live_nodes: Callable[[], int] = lambda: 1
    ) -> None:
        self._newest = image
        self._clock = clock
        self._live_nodes = live_nodes
        self._image = MetadataImage()
        self._version = 0
        self._keys: frozenset[QuotaKey] = frozenset()
        self._of_users: dict[CounterKey, QuotaCounter] = {}
        self._of_others: OrderedDict[CounterKey, QuotaCounter] = OrderedDict()
        self._swept_ms = 0.0
        self._throttled = dict.fromkeys(QuotaKey, 0)
        self._throttled_ms = dict.fromkeys(QuotaKey, 0.0)

    # -- what the store limits ---------------------------------------------------------------------------

    def limits(self, key: QuotaKey) -> bool:
        """Returns whether the store has any limit of this kind."""
        if self._newest() is not self._image:
            self._follow()
        return key in self._keys

    def _follow(self) -> None:
        image, before = self._newest(), self._image
        self._image = image
        if image.quotas.is_unchanged_from(before.quotas):
            return
        self._version += 1
        self._keys = frozenset(key for quota in image.quotas.values() for key, _ in quota.limits)

    def counter(self, connection: ConnectionContext, key: QuotaKey) -> QuotaCounter | None:
        """Returns the counter that a client is charged to; None: it has no limit."""
        if self._newest() is not self._image:
            self._follow()
        if key not in self._keys:
            return None
        kept = connection.quotas
        if (
            kept.version != self._version
            or kept.principal is not connection.principal
            or kept.client_id != connection.client_id
        ):
            kept = connection.quotas = KeptQuotas(
                self._version, connection.principal, connection.client_id, {}
            )
        known: _KeptCounter | None = kept.winning.get(key)
        if known is None:
            if key in kept.winning:
                return None
            won = self._winning(connection, key)
            known = kept.winning[key] = None if won is None else self._kept_counter(won, key)
            if known is None:
                return None
        if known.counter.is_forgotten:
            known.counter = self._counter(known.key, known.limit)
        elif known.is_of_others:
            self._of_others.move_to_end(known.key)
        return known.counter

    def _kept_counter(self, won: WinningLimit, key: QuotaKey) -> "_KeptCounter":
        counter_key = key, won.user, won.client_id
        counter = self._counter(counter_key, won.limit)
        return _KeptCounter(counter_key, won.limit, counter, counter_key in self._of_others)

    def _winning(self, connection: ConnectionContext, key: QuotaKey) -> WinningLimit | None:
        if connection.principal is NODE:  # by identity: only the login of a node gives it
            return None
        return winning_limit(self._image.quotas, key, connection.principal.name, connection.client_id)

    def _counter(self, key: CounterKey, limit: float) -> QuotaCounter:
        """A client can make up client ids, and not users. So counters that tell client ids apart, or addresses, are
        limited: the one that was not used for the longest time is forgotten."""
        now_ms = self._clock.monotonic_ms()
        kind, _, client_id = key
        of_user = client_id is None and not kind.is_of_addresses
        table = self._of_users if of_user else self._of_others
        counter = table.get(key)
        if counter is None:
            self._sweep(now_ms)
            counter = table[key] = QuotaCounter(kind, now_ms)
            if len(self._of_others) > QUOTA_COUNTERS_MAX:
                self._of_others.popitem(last=False)[1].is_forgotten = True
        elif not of_user:
            self._of_others.move_to_end(key)
        counter.limit = limit
        return counter

    def _sweep(self, now_ms: float) -> None:
        """Forgets counters that nobody has used for an hour, once a minute at most."""
        if now_ms - self._swept_ms < 60 * SECOND_MS:
            return
        self._swept_ms = now_ms
        for table in (self._of_users, self._of_others):
            idle = [key for key, each in table.items() if now_ms - each.used_ms >= QUOTA_COUNTER_FORGOTTEN_MS]
            for key in idle:
                table.pop(key).is_forgotten = True

    # -- charging ----------------------------------------------------------------------------------------

    def produced(self, connection: ConnectionContext, size_bytes: int, now_ms: float) -> None:
        """``now_ms``: when the request began, which every produce knows."""
        counter = self.counter(connection, QuotaKey.PRODUCER_BYTE_RATE)
        if counter is not None and (owed_ms := counter.charge(size_bytes, now_ms)):
            self._mute(connection, counter.key, min(owed_ms, MUTED_MS_MAX))

    def worked(self, connection: ConnectionContext, took_ms: float) -> None:
        """Charges the time that a request held the event loop. Its mute is at most a window, as in Kafka."""
        percent = took_ms / SECOND_MS * 100
        self._charge(connection, QuotaKey.REQUEST_PERCENTAGE, percent, QUOTA_WINDOW_MS)

    def _charge(
        self, connection: ConnectionContext, key: QuotaKey, amount: float, muted_ms_max: float
    ) -> None:
        counter = self.counter(connection, key)
        if counter is not None:
            owed_ms = counter.charge(amount, self._clock.monotonic_ms())
            if owed_ms:
                self._mute(connection, key, min(owed_ms, muted_ms_max))

    def fetch_bytes_max(self, connection: ConnectionContext) -> float:
        """Returns the most bytes that one answer may have: what the limit allows in ten seconds."""
        counter = self.counter(connection, QuotaKey.CONSUMER_BYTE_RATE)
        return float("inf") if counter is None else counter.limit * FULL_WINDOWS

    def refuses_fetched(self, connection: ConnectionContext, size_bytes: int) -> bool:
        """Charges what an answer would have. Returns whether the client gets an empty answer instead, and is charged
        for nothing, because it is above its limit. One batch larger than what ten seconds allow is let through when
        nothing was used before, and paid for afterwards: otherwise no client could ever read it."""
        counter = self.counter(connection, QuotaKey.CONSUMER_BYTE_RATE)
        if counter is None:
            return False
        now_ms = self._clock.monotonic_ms()
        is_first = not counter.rate.used(now_ms)
        owed_ms = counter.tried(size_bytes, now_ms)
        is_refused = owed_ms > 0 and not is_first
        if is_refused:
            counter.take_back(size_bytes, now_ms)
        else:
            counter.note_debt(owed_ms, now_ms)
        self._mute(connection, counter.key, min(owed_ms, MUTED_MS_MAX))
        return is_refused

    def is_above_fetched(self, connection: ConnectionContext) -> bool:
        """Returns whether the client has a debt for what it fetched. It is muted then, and charged for nothing."""
        counter = self.counter(connection, QuotaKey.CONSUMER_BYTE_RATE)
        if counter is None:
            return False
        owed_ms = counter.tried(0, self._clock.monotonic_ms())
        self._mute(connection, counter.key, min(owed_ms, MUTED_MS_MAX))
        return owed_ms >= 1

    def fetched(self, connection: ConnectionContext, size_bytes: int) -> None:
        """Charges records that a member of a share group gets: they are sent in any case."""
        self._charge(connection, QuotaKey.CONSUMER_BYTE_RATE, size_bytes, MUTED_MS_MAX)

    def mutations(self, connection: ConnectionContext, *, is_strict: bool) -> "Mutations":
        """``is_strict``: what is above the limit is refused; older clients do not know that error, so they are muted
        afterwards."""
        return Mutations(self, connection, is_strict=is_strict)

    def changed(self, connection: ConnectionContext, partitions: int, *, is_strict: bool) -> None:
        """Charges partitions before they are created or deleted. Raises MutationsThrottled."""
        counter = self.counter(connection, QuotaKey.CONTROLLER_MUTATION_RATE)
        if counter is None or not partitions:
            return
        now_ms = counter.used_ms = self._clock.monotonic_ms()
        limit = counter.limit / max(self._live_nodes(), 1)
        owed_ms = counter.bucket.debt_ms(limit, now_ms)
        if is_strict and owed_ms > 0:
            self._mute(connection, counter.key, min(owed_ms, MUTED_MS_MAX))
            raise MutationsThrottled("The throttling quota has been exceeded.")
        counter.bucket.take(partitions, limit, now_ms)
        if not is_strict:
            owed_ms = counter.bucket.debt_ms(limit, now_ms)
            self._mute(connection, counter.key, min(owed_ms, MUTED_MS_MAX))

    def _mute(self, connection: ConnectionContext, key: QuotaKey, owed_ms: float) -> None:
        if owed_ms < 1:  # an answer has whole milliseconds
            return
        self._throttled[key] += 1
        self._throttled_ms[key] += owed_ms
        until_ms = self._clock.monotonic_ms() + owed_ms
        connection.muted_until_ms = max(connection.muted_until_ms, until_ms)

    def told_ms(self, connection: ConnectionContext) -> int:
        """Returns for how long an answer tells the client to wait."""
        if not connection.muted_until_ms:
            return 0
        return max(round(connection.muted_until_ms - self._clock.monotonic_ms()), 0)

    # -- connections -------------------------------------------------------------------------------------

    def arrived(self, host: str) -> float:
        """Counts a new connection. Returns 0, or how long to wait before it is closed: its address makes too many, and
        this one does not count."""
        key = QuotaKey.CONNECTION_CREATION_RATE
        if not self.limits(key) or (limit := limit_of_address(self._image.quotas, host)) is None:
            return 0.0
        counter = self._counter((key, host, None), limit)
        now_ms = self._clock.monotonic_ms()
        owed_ms = counter.tried(1, now_ms)
        if owed_ms < 1:
            return 0.0
        counter.take_back(1, now_ms)
        owed_ms = min(owed_ms, QUOTA_WINDOW_MS)
        self._throttled[key] += 1
        self._throttled_ms[key] += owed_ms
        return owed_ms

    # -- the time of the event loop ----------------------------------------------------------------------

    async def timed(self, connection: ConnectionContext, work: Awaitable[T]) -> T:
        """Does the work, and charges the time that it held the event loop if the store limits that."""
        if not self.limits(QuotaKey.REQUEST_PERCENTAGE):
            return await work
        timed = _Timed(work, self._clock)
        try:
            done: T = await timed
            return done
        finally:
            self.worked(connection, timed.took_ms)

    def statistics(self) -> ThrottleStatistics:
        return ThrottleStatistics(
            {key: times for key, times in self._throttled.items() if times},
            {key: ms for key, ms in self._throttled_ms.items() if ms},
            len(self._of_users) + len(self._of_others),
        )


class Mutations:
    """The changes of partitions that one request asks for."""

    def __init__(self, throttling: Throttling, connection: ConnectionContext, *, is_strict: bool) -> None:
        self._throttling = throttling
        self._connection = connection
        self._is_strict = is_strict

    @property
    def are_limited(self) -> bool:
        return self._throttling.limits(QuotaKey.CONTROLLER_MUTATION_RATE)

    def charge(self, partitions: int) -> None:
        """Raises MutationsThrottled."""
        self._throttling.changed(self._connection, partitions, is_strict=self._is_strict)


class _Timed:
    """An awaitable that measures the steps of another one. What its tasks do by themselves is not measured."""

    def __init__(self, work: Awaitable[Any], clock: Clock) -> None:
        self._work = work
        self._clock = clock
        self.took_ms = 0.0

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._work.__await__()
        value, failure = None, None
        while True:
            begun_ms = self._clock.monotonic_ms()
            try:
                waits_for = steps.send(value) if failure is None else steps.throw(failure)
            except StopIteration as ended:
                return ended.value
            finally:
                self.took_ms += self._clock.monotonic_ms() - begun_ms
            value, failure = None, None
            try:
                value = yield waits_for
            except BaseException as thrown:
                failure = thrown
