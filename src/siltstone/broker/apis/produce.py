"""Produce: appends record batches to partitions and answers when they are durable. Many requests of a connection may be
under way at once.

This is the hot path of the broker, so most requests have no task and no coroutine: ``handle`` appends their batches,
and the futures of the appends complete the answer. A request becomes a task if it first has to open a partition, read
records for long, or ask the coordinator of a transaction (``batch_permissions``), or wait for a group with too large a
backlog, or for a partition that is being handed over. Later requests overtake it, unless they name one of its
partitions (``produce_order``): the offsets of a partition are assigned in the order of arrival (item 24)."""

import asyncio
from collections.abc import Collection

from siltstone.broker.apis.batch_permissions import (
    ask_permission,
    refusal_of,
    wants_permission,
)
from siltstone.broker.apis.produce_order import Turn, has_to_queue
from siltstone.broker.apis.produce_under_way import (
    NO_ANSWER_WANTED,
    TOPIC_ID_VERSION,
    ProduceUnderWay,
    RecordErrorLimit,
    Target,
    denied_id,
    named_topic,
)
from siltstone.broker.partitions.admission import admit, takes_long
from siltstone.broker.partitions.partitions import PartitionKey
from siltstone.broker.parts import BrokerParts
from siltstone.broker.request import Answer, Overtakable, RequestContext
from siltstone.broker.request_measures import RequestStage
from siltstone.broker.topics.registry import Topic
from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.codec import decode_in_place
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.produce import (
    ProducePartition,
    ProduceRequest,
)
from siltstone.model.access import NODE
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import (
    HAND_OVER_MS_MAX,
    HELD_PRODUCE_BYTES_MAX,
    PRODUCE_HOLD_MS_MAX,
    PRODUCE_TIMEOUT_SWEEP_MS,
)
from siltstone.model.quotas import QuotaKey
from siltstone.runtime.turns import side_by_side

NOT_ONE_TRANSACTION = (
    "a request with batches of transactions is of one producer, and names its transactional id"
)
HELD = "a group's backlog is larger than siltstone.backlog.quota.bytes: retry later"


class ProduceApi:
    """Handles Produce. The number of requests under way is bounded by the network's limits."""

    def __init__(self, parts: BrokerParts) -> None:
        self._topics = parts.topics
        self._partitions = parts.partitions
        self._cluster = parts.cluster
        self._clock = parts.clock
        self._record_calls = parts.record_calls
        self._transactions = parts.transactions
        self._verdicts = parts.quota_verdicts
        self._measures = parts.measures
        self._throttling = parts.throttling
        self._under_way: dict[ProduceUnderWay, None] = {}
        self._held_bytes = 0

    def handle(self, context: RequestContext, body: memoryview) -> "asyncio.Future[Answer] | Overtakable":
        """Appends all batches and returns a future; or returns an Overtakable, when the request has to wait before it
        can append. Raises MalformedMessage."""
        context.connection.sends_records = True
        request = decode_in_place(ProduceRequest, context.api_version, body)
        # Before the appends: a client sends more requests before the first is answered, and they have to wait, too.
        self._throttling.produced(context.connection, len(body), context.begun_ms)
        targets = self._targets(context, request)
        _refuse_transactional(request, targets)
        if self._verdicts.are_there and any(self._is_held(each) for of_topic in targets for each in of_topic):
            context.connection.requests_held += 1
            turn = Turn(context.connection, _keys_of(targets))
            return Overtakable(self._begin_held(context, request, targets, len(body), turn))
        now_ms = self._clock.now_ms()
        if any(_has_to_wait(each, now_ms) for of_topic in targets for each in of_topic) or (
            context.connection.produces_waiting and has_to_queue(context.connection, _keys_of(targets))
        ):
            turn = Turn(context.connection, _keys_of(targets))
            return Overtakable(self._prepare_and_begin(context, request, targets, len(body), turn))
        answer = self._when_durable(self._begin(context, request, targets))
        self._charge_time(context, request)
        return answer

    def _targets(self, context: RequestContext, request: ProduceRequest) -> list[list[Target]]:
        limit = RecordErrorLimit()
        denied = denied_id(context, request)
        return [
            [self._target(topic, asked, limit, refused) for asked in of_topic.partitions]
            for of_topic in request.topics
            for topic, refused in (named_topic(self._topics, context, of_topic, denied),)
        ]

    def _target(
        self, topic: Topic | None, asked: ProducePartition, limit: RecordErrorLimit, refused: ErrorCode
    ) -> Target:
        if refused is not ErrorCode.NONE:
            return Target(asked, None, None, limit, error=refused)
        if topic is None or not 0 <= asked.index < topic.partition_count:
            return Target(asked, topic, None, limit)
        return Target(asked, topic, self._partitions.opened(topic.id, asked.index), limit)

    def _begin(
        self,
        context: RequestContext,
        request: ProduceRequest,
        targets: list[list[Target]],
        held: Collection[Target] = (),
    ) -> ProduceUnderWay:
        """Appends the batches of all targets but those in ``held``."""
        deadline_ms = self._clock.monotonic_ms() + request.timeout_ms
        under_way = ProduceUnderWay(context, request, targets, deadline_ms, self._measure, self._cluster)
        refused = _refusal(request)
        if refused is None and not self._cluster.serves:
            refused = ErrorCode.NOT_LEADER_OR_FOLLOWER
        for target in under_way.targets():
            if refused is not None:
                target.error = refused
            elif target not in held:
                self._append_unless_failed(under_way, target, context.api_version)
        return under_way

    def _append_unless_failed(self, under_way: ProduceUnderWay, target: Target, version: int) -> None:
        if target.error is not ErrorCode.NONE:
            return
        self._append(target, version, is_of_node=under_way.context.connection.principal is NODE)
        appended = target.appended
        if appended is not None and appended.durable is not None:
            under_way.wait_for(target, appended.durable)

    def _append(self, target: Target, version: int, *, is_of_node: bool) -> None:
        topic, partition = target.topic, target.partition
        if topic is None or partition is None:
            target.error = _what_is_unknown(target, version)
        elif partition.is_closed:
            is_there = self._cluster.partition(topic.id, target.asked.index) is not None
            moved = ErrorCode.NOT_LEADER_OR_FOLLOWER
            target.error = moved if is_there else _what_is_unknown(target, version)
        elif topic.is_internal and not is_of_node:
            target.error = ErrorCode.INVALID_TOPIC_EXCEPTION
        else:
            try:
                self._verdicts.check(topic.id, target.asked.index)
                target.appended = (
                    partition.append(_records_of(target), topic.config, version, target.permission)
                    if target.admitted is None
                    else partition.append_admitted(target.admitted, target.permission)
                )
            except SiltstoneError as failure:
                target.fail(failure)

    def _charge_time(self, context: RequestContext, request: ProduceRequest) -> None:
        """Charges the time of the event loop, as in Kafka not to a client that wants no answer."""
        if request.acks != NO_ANSWER_WANTED and self._throttling.limits(QuotaKey.REQUEST_PERCENTAGE):
            self._throttling.worked(context.connection, self._clock.monotonic_ms() - context.begun_ms)

    def _when_durable(self, under_way: ProduceUnderWay) -> "asyncio.Future[Answer]":
        """Returns the answer of a request whose appends have all started."""
        under_way.appended_ms = self._clock.monotonic_ms()
        under_way.one_less()
        if not under_way.answer.done():
            self._under_way[under_way] = None
            under_way.answer.add_done_callback(lambda _: self._under_way.pop(under_way, None))
        return under_way.answer

    def _measure(self, ended: ProduceUnderWay) -> None:
        ended.throttle_ms = self._throttling.told_ms(ended.context.connection)
        now_ms, begun_ms, appended_ms = self._clock.monotonic_ms(), ended.context.begun_ms, ended.appended_ms
        self._measures.answered(ApiKey.PRODUCE, (now_ms - begun_ms) / 1000)
        self._measures.staged(RequestStage.PRODUCE_APPEND, (appended_ms - begun_ms) / 1000)
        self._measures.staged(RequestStage.PRODUCE_DURABLE, (now_ms - appended_ms) / 1000)
        for target in ended.targets():
            if target.error is not ErrorCode.NONE:
                self._measures.failed(ApiKey.PRODUCE, target.error)

    # -- partitions to be opened, records to be read for long ----------------------------------------------

    async def _prepare_and_begin(
        self,
        context: RequestContext,
        request: ProduceRequest,
        targets: list[list[Target]],
        size_bytes: int,
        turn: Turn,
    ) -> Answer:
        async with turn:
            everything = [target for of_topic in targets for target in of_topic]
            if held := [target for target in everything if _is_handed_over(target)]:
                await self._wait_for_hand_over(context, held, size_bytes)
            await self._prepare(context, request, targets)
            await self._ask_permission(context, request, everything)
            under_way = self._begin(context, request, targets)
        return await self._when_durable(under_way)

    async def _prepare(
        self, context: RequestContext, request: ProduceRequest, targets: list[list[Target]]
    ) -> None:
        everything = [target for of_topic in targets for target in of_topic]
        await side_by_side(self._open, filter(_is_closed, everything))
        now_ms = self._clock.now_ms()
        for target in everything:
            if _refusal(request) is None and _takes_long(target, now_ms):
                await self._admit(target, context.api_version)

    async def _wait_for_hand_over(self, context: RequestContext, held: list[Target], size_bytes: int) -> None:
        """Waits until the partitions are handed over, or served on. What is still held after HAND_OVER_MS_MAX, or when
        too many bytes wait, is refused when it is appended, and the client tries again."""
        if self._held_bytes + size_bytes > HELD_PRODUCE_BYTES_MAX:
            return
        self._held_bytes += size_bytes
        context.connection.requests_held += 1
        try:
            deadline_ms = self._clock.monotonic_ms() + HAND_OVER_MS_MAX
            for target in held:
                assert target.partition is not None
                await target.partition.wait_while_held(deadline_ms - self._clock.monotonic_ms())
        finally:
            self._held_bytes -= size_bytes
            context.connection.requests_held -= 1
        for target in held:
            if target.partition is not None and target.partition.is_closed:
                target.partition = None  # it is looked for again, and its leader named

    # Why on first use, and not when the node comes to lead a partition: each start would write two streams for every
    # partition, also for partitions without producers (decision 43).
    async def _open(self, target: Target) -> None:
        assert target.topic is not None
        try:
            with self._partitions.openings.append_waits():
                target.partition = await self._partitions.open(target.topic, target.asked.index)
        except SiltstoneError as failure:
            target.fail(failure)

    async def _admit(self, target: Target, version: int) -> None:
        assert target.topic is not None
        try:
            target.admitted = await self._record_calls.run(
                admit, _records_of(target), target.topic.config, self._clock.now_ms(), version
            )
        except SiltstoneError as failure:
            target.fail(failure)

    async def _ask_permission(
        self, context: RequestContext, request: ProduceRequest, targets: list[Target]
    ) -> None:
        await ask_permission(
            self._transactions, self._partitions, request.transactional_id, context.api_version, targets
        )

    # -- over a backlog quota ------------------------------------------------------------------------------

    def _is_held(self, target: Target) -> bool:
        return target.topic is not None and self._verdicts.holds(target.topic.id, target.asked.index)

    async def _begin_held(
        self,
        context: RequestContext,
        request: ProduceRequest,
        targets: list[list[Target]],
        size_bytes: int,
        turn: Turn,
    ) -> Answer:
        """Appends at once to the partitions that are not held, and to the others when their groups have caught up. A
        partition that is held for too long is answered REQUEST_TIMED_OUT, and the client retries."""
        try:
            async with turn:
                await self._prepare(context, request, targets)
                everything = [target for of_topic in targets for target in of_topic]
                at_once = [target for target in everything if not self._is_held(target)]
                await self._ask_permission(context, request, at_once)
                held = [target for target in everything if self._is_held(target)]
                under_way = self._begin(context, request, targets, held)
                keys = {(target.topic.id, target.asked.index) for target in held if target.topic is not None}
                wait_ms = min(PRODUCE_HOLD_MS_MAX, request.timeout_ms / 2)
                await self._verdicts.wait_while_held(keys, size_bytes, wait_ms, self._clock)
                await self._ask_permission(context, request, held)
                for target in held:
                    if self._is_held(target):
                        target.error, target.error_message = ErrorCode.REQUEST_TIMED_OUT, HELD
                    else:
                        self._append_unless_failed(under_way, target, context.api_version)
        finally:
            context.connection.requests_held -= 1
        return await self._when_durable(under_way)

    # -- time limits ---------------------------------------------------------------------------------------

    async def sweep(self) -> None:
        """Runs for ever: answers requests whose time limit has passed."""
        while True:
            await self._clock.sleep_ms(PRODUCE_TIMEOUT_SWEEP_MS)
            now_ms = self._clock.monotonic_ms()
            for late in [each for each in self._under_way if each.deadline_ms < now_ms]:
                late.time_out()


def _keys_of(targets: list[list[Target]]) -> list[PartitionKey]:
    """Returns the partitions that the request names. A topic that does not exist has none."""
    return [
        (each.topic.id, each.asked.index)
        for of_topic in targets
        for each in of_topic
        if each.topic is not None
    ]


def _is_closed(target: Target) -> bool:
    """Returns whether the partition exists and has to be opened."""
    topic = target.topic
    return target.partition is None and topic is not None and 0 <= target.asked.index < topic.partition_count


def _is_handed_over(target: Target) -> bool:
    return target.partition is not None and target.partition.is_held


def _has_to_wait(target: Target, now_ms: int) -> bool:
    return (
        _is_closed(target)
        or _is_handed_over(target)
        or _takes_long(target, now_ms)
        or (target.is_transactional and wants_permission(target))
    )


def _takes_long(target: Target, now_ms: int) -> bool:
    """Returns whether checking the batch would hold up all other requests. A batch that is refused in any case is not
    checked."""
    topic = target.topic
    if topic is None or target.partition is None or topic.is_internal:
        return False
    return takes_long(_records_of(target), topic.config, now_ms)


def _records_of(target: Target) -> memoryview:
    return memoryview(target.asked.records or b"")


def _refusal(request: ProduceRequest) -> ErrorCode | None:
    """Says why the whole request is refused; None if it is not."""
    if request.acks not in (-1, 0, 1):
        return ErrorCode.INVALID_REQUIRED_ACKS
    return None


def _refuse_transactional(request: ProduceRequest, targets: list[list[Target]]) -> None:
    """Refuses all batches of a request if the transactional ones among them are not of one transaction."""
    transactional = [each for of_topic in targets for each in of_topic if each.is_transactional]
    if transactional and (refused := refusal_of(request.transactional_id, transactional)) is not None:
        for of_topic in targets:
            for target in of_topic:
                target.error, target.error_message = refused, NOT_ONE_TRANSACTION


def _what_is_unknown(target: Target, version: int) -> ErrorCode:
    """UNKNOWN_TOPIC_ID from version 13 on; UNKNOWN_TOPIC_OR_PARTITION before that, and when the topic exists without
    such a partition."""
    lacks_partition = target.topic is not None and target.partition is None
    if version >= TOPIC_ID_VERSION and not lacks_partition:
        return ErrorCode.UNKNOWN_TOPIC_ID
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
