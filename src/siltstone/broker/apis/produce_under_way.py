"""A Produce under way: what came of each of its partitions, and the answer, when the last append is durable or time is
up.

A topic is denied by its name before it is looked up. By its id it is looked up first: an id that no topic has is
unknown, for every client.
"""

import asyncio
from collections.abc import Callable, Iterator

import msgspec

from siltstone.broker.cluster_view import ClusterView
from siltstone.broker.error_codes import error_code, error_message
from siltstone.broker.partitions.admission import Admitted, RecordRefused
from siltstone.broker.partitions.partition import Appended, Partition
from siltstone.broker.partitions.transaction_state import TransactionPermission
from siltstone.broker.request import Answer, CloseConnection, RequestContext, frame_of
from siltstone.broker.topics.registry import Topic, Topics
from siltstone.kafka_protocol.batch_header import BATCH_HEADER_BYTES, TRANSACTIONAL_BIT
from siltstone.kafka_protocol.codec import encode
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.kafka_protocol.messages.produce import (
    CurrentLeader,
    NodeEndpoint,
    ProducedPartition,
    ProducedTopic,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
    RecordError,
)
from siltstone.kafka_protocol.records.validation import RECORDS_NAMED_MAX
from siltstone.model.access import NODE
from siltstone.model.acls import AclOperation, AclResourceType
from siltstone.model.audit import AUDIT_TOPIC

TOPIC_ID_VERSION = 13
"""From this version on topics are named by id only."""

NO_ANSWER_WANTED = 0
ATTRIBUTES_END = 22
"""The position of the lower byte of a batch's attributes."""

CURRENT_LEADER_VERSION = 10
NO_LEADER = CurrentLeader()


class RecordErrorLimit(msgspec.Struct):
    """How many refused records the answer to one request may still name: a compressed batch of a few KiB can hold a
    million, and a request many such batches."""

    left: int = RECORDS_NAMED_MAX

    def take(self, refused: tuple[tuple[int, str], ...]) -> list[RecordError]:
        named = refused[: self.left]
        self.left -= len(named)
        return [RecordError(batch_index=index, message=text) for index, text in named]


class Target(msgspec.Struct, gc=False, eq=False):
    """One partition of a request, with its batch and the outcome: ``appended``, or ``error`` with its text.

    ``admitted`` is set if the batch takes long to check and was therefore checked before the append, not in it. A
    failure is kept as code and text, not as the exception: its traceback would refer to the target, and this cycle
    would keep the bytes of the request in memory. ``permission``: that of the coordinator, for the first batch of a
    transaction in the partition.
    """

    asked: ProducePartition
    topic: Topic | None
    partition: Partition | None
    limit: RecordErrorLimit
    admitted: Admitted | None = None
    permission: TransactionPermission | None = None
    appended: Appended | None = None
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    record_errors: list[RecordError] = []
    leader: CurrentLeader = NO_LEADER

    @property
    def is_transactional(self) -> bool:
        """Whether the batch says so; it has not been checked yet."""
        records = self.asked.records
        return (
            records is not None
            and len(records) >= BATCH_HEADER_BYTES
            and bool(records[ATTRIBUTES_END] & TRANSACTIONAL_BIT)
        )

    def fail(self, failure: BaseException) -> None:
        self.error = error_code(failure)
        self.error_message = error_message(failure)
        if isinstance(failure, RecordRefused):
            self.record_errors = self.limit.take(failure.records)


class ProduceUnderWay:
    """A request from its first append until ``answer`` is set: when the last append is durable, or time is up.
    ``throttle_ms``: how long the answer tells the client to wait, written at the end."""

    def __init__(
        self,
        context: RequestContext,
        request: ProduceRequest,
        targets: list[list[Target]],
        deadline_ms: float,
        on_end: "Callable[[ProduceUnderWay], None]",
        cluster: ClusterView,
    ) -> None:
        self._cluster = cluster
        self.deadline_ms = deadline_ms
        self.appended_ms = context.begun_ms
        self.throttle_ms = 0
        self._on_end = on_end
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.context = context
        self._request = request
        self._targets = targets
        self._left = 1

    def wait_for(self, target: Target, durable: "asyncio.Future[int]") -> None:
        self._left += 1
        durable.add_done_callback(lambda done: self._settled(target, done))

    def _settled(self, target: Target, durable: "asyncio.Future[int]") -> None:
        if durable.cancelled():
            target.error = ErrorCode.REQUEST_TIMED_OUT
        elif (failure := durable.exception()) is not None:
            target.fail(failure)
        self.one_less()

    def one_less(self) -> None:
        """Called once for each append that has ended, and once when all appends have started."""
        self._left -= 1
        if self._left == 0:
            self.end()

    def time_out(self) -> None:
        """Answers the request although appends are under way. Their batches may still become durable; the client
        retries (item 25)."""
        for target in self.targets():
            appended = target.appended
            if appended is not None and appended.durable is not None and not appended.durable.done():
                target.error = ErrorCode.REQUEST_TIMED_OUT
        self.end()

    def end(self) -> None:
        if self.answer.done():
            return
        self._on_end(self)
        if self._request.acks == NO_ANSWER_WANTED:
            self._end_silently()
            return
        endpoints = self._tell_leaders() if self.context.api_version >= CURRENT_LEADER_VERSION else []
        rows = [self._topic_row(i) for i in range(len(self._targets))]
        response = ProduceResponse(topics=rows, node_endpoints=endpoints, throttle_time_ms=self.throttle_ms)
        body = encode(response, self.context.api_version)
        self.answer.set_result(frame_of(self.context, body))

    def _end_silently(self) -> None:
        """Ends a request with acks=0, for which the client gets no answer; a failure closes its connection (item 9)."""
        failed = next((target for target in self.targets() if target.error is not ErrorCode.NONE), None)
        if failed is None:
            self.answer.set_result(None)
        else:
            self.answer.set_exception(CloseConnection(f"produce with acks=0 failed: {failed.error.name}"))

    def _tell_leaders(self) -> list[NodeEndpoint]:
        """Names the leaders of the partitions that this node does not lead, and returns their addresses, so that the
        client need not request metadata (KIP-951)."""
        endpoints: dict[int, NodeEndpoint] = {}
        for target in self.targets():
            if target.error is not ErrorCode.NOT_LEADER_OR_FOLLOWER or target.topic is None:
                continue
            listener = self.context.connection.listener
            hint = self._cluster.hint(target.topic.id, target.asked.index, listener)
            if hint is not None:
                at = hint.endpoint
                target.leader = CurrentLeader(leader_id=at.node_id, leader_epoch=hint.leader_epoch)
                endpoints[at.node_id] = NodeEndpoint(
                    node_id=at.node_id, host=at.host, port=at.port, rack=at.rack
                )
        return list(endpoints.values())

    def targets(self) -> Iterator[Target]:
        for of_topic in self._targets:
            yield from of_topic

    def _topic_row(self, number: int) -> ProducedTopic:
        asked = self._request.topics[number]
        rows = [_partition_row(target) for target in self._targets[number]]
        return ProducedTopic(name=asked.name, topic_id=asked.topic_id, partitions=rows)


def _partition_row(target: Target) -> ProducedPartition:
    appended, partition = target.appended, target.partition
    if target.error is not ErrorCode.NONE or appended is None or partition is None:
        return ProducedPartition(
            index=target.asked.index,
            error_code=target.error,
            error_message=target.error_message,
            record_errors=target.record_errors,
            current_leader=target.leader,
        )
    return ProducedPartition(
        index=target.asked.index,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.append_time_ms,
        log_start_offset=partition.log_start_offset,
    )


# -- which topic, and whether the client may write it ------------------------------------------------------------


def denied_id(context: RequestContext, request: ProduceRequest) -> ErrorCode:
    """Returns the refusal of a producer that may not use its transactional id; NONE if it may."""
    name = request.transactional_id
    if name is None or context.may(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, name):
        return ErrorCode.NONE
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def named_topic(
    topics: Topics, context: RequestContext, asked: ProduceTopic, denied: ErrorCode
) -> tuple[Topic | None, ErrorCode]:
    """Returns the topic that the request names, and why nothing may be appended to it. A topic that the client may not
    write is none. A node may write the topic of the audit alone, in every mode.
    ``denied``: why the whole request is refused, or NONE."""
    by_id = context.api_version >= TOPIC_ID_VERSION
    topic = topics.by_id(asked.topic_id) if by_id else topics.by_name(asked.name)
    name = topic.name if topic is not None else None if by_id else asked.name
    if context.connection.principal is NODE and name != AUDIT_TOPIC:
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if denied is ErrorCode.NONE and name is not None and not context.may_topic(AclOperation.WRITE, name):
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return (topic if denied is ErrorCode.NONE else None), denied
