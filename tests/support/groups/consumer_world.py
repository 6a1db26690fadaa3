"""One consumer group of KIP-848, its topics, its timers and its members, without a coordinator.

After each decision the log is replayed and compared with the group in memory, and no partition may have two holders.
"""

import re
from collections.abc import Iterable

import msgspec

from siltstone.broker.groups.consumer_protocol.group import ConsumerGroup, ConsumerMember, PartitionOfId
from siltstone.broker.groups.consumer_protocol.log_records import ReplayedConsumerGroup
from siltstone.broker.groups.group_kinds import AnyGroup, decide_of_any_kind, timers_of
from siltstone.broker.groups.loading import Replay
from siltstone.broker.groups.offsets_log.consumer_records import ConsumerRecord
from siltstone.broker.groups.offsets_log.record import EncodedRecord, decode_record, encode_record
from siltstone.broker.groups.rules.decision import AnswerTo, CancelTimer, SetTimer
from siltstone.broker.groups.rules.group import Group
from siltstone.broker.groups.rules.requests import (
    Answer,
    BeatAnswer,
    ConsumerBeat,
    GroupTimer,
    Request,
    TimerRang,
)
from siltstone.broker.groups.settings import GroupSettings
from siltstone.kafka_protocol.error_code import ErrorCode

START_MS = 1_700_000_000_000
REBALANCE_MS = 60_000
AT_ONCE = GroupSettings(group_consumer_assignment_interval_ms=0)


class PlainTopic(msgspec.Struct, frozen=True):
    name: str
    topic_id: bytes
    partition_count: int
    created_ms: int = START_MS


class PlainTopics:
    def __init__(self, **counts: int) -> None:
        self._ids = 0
        self._topics: tuple[PlainTopic, ...] = ()
        for name, count in counts.items():
            self.create(name, count)

    def create(self, name: str, partition_count: int) -> None:
        self._ids += 1
        self._topics = (*self._topics, PlainTopic(name, self._ids.to_bytes(16, "big"), partition_count))

    def extend(self, name: str, partition_count: int) -> None:
        self._topics = tuple(
            msgspec.structs.replace(topic, partition_count=partition_count) if topic.name == name else topic
            for topic in self._topics
        )

    def delete(self, name: str) -> None:
        self._topics = tuple(topic for topic in self._topics if topic.name != name)

    def by_name(self, name: str) -> PlainTopic | None:
        return next((topic for topic in self._topics if topic.name == name), None)

    def by_id(self, topic_id: bytes) -> PlainTopic | None:
        return next((topic for topic in self._topics if topic.topic_id == topic_id), None)

    def all(self) -> tuple[PlainTopic, ...]:
        return self._topics

    def partitions(self, name: str) -> set[PartitionOfId]:
        topic = self.by_name(name)
        assert topic is not None
        return {(topic.topic_id, number) for number in range(topic.partition_count)}


class ConsumerWorld:
    """``last``: the records of the last decision. ``answers``: ticket → answer."""

    def __init__(self, settings: GroupSettings = AT_ONCE, **counts: int) -> None:
        self.settings = settings
        self.topics = PlainTopics(**counts)
        self.any_group: AnyGroup = Group("readers")
        self.now_ms = START_MS
        self.timers: dict[GroupTimer, int] = {}
        self.last: list[object] = []
        self.answers: dict[int, Answer] = {}
        self.tickets = 0
        self._log: list[EncodedRecord] = []
        self._replayed = ReplayedConsumerGroup("readers")

    @property
    def group(self) -> ConsumerGroup:
        assert isinstance(self.any_group, ConsumerGroup)
        return self.any_group

    def member(self, member_id: str) -> ConsumerMember:
        return self.group.members[member_id]

    def ask(self, request: Request) -> Answer | None:
        """Returns None while the answer waits for other members: ``answers`` gets it for the ticket of the request."""
        self.tickets += 1
        ticket = self.tickets
        decision = decide_of_any_kind(
            self.any_group, request, ticket, self.now_ms, self.settings, self.topics
        )
        self.any_group, self.last = decision.group, list(decision.records)
        for action in decision.actions:
            match action:
                case AnswerTo(answered, given):
                    self.answers[answered] = given
                case SetTimer(timer, delay_ms, keeps) if not keeps or timer not in self.timers:
                    self.timers[timer] = self.now_ms + delay_ms
                case CancelTimer(timer):
                    self.timers.pop(timer, None)
        self._check()
        if self.any_group.is_dead:
            self.any_group = Group("readers")
        return self.answers.get(ticket)

    def move(self) -> None:
        """Another coordinator loads the group from its log. It has no request that waits, and all time limits begin
        again."""
        replay = Replay()
        for encoded in self._log:
            replay.read(encoded)
        known = replay.finish().get("readers")
        self.any_group = Group("readers") if known is None else known.group
        for ticket in range(1, self.tickets + 1):
            self.answers.setdefault(ticket, ErrorCode.NOT_COORDINATOR)
        self.timers = {
            timer: self.now_ms + delay_ms for timer, delay_ms in timers_of(self.any_group, self.settings)
        }

    def beat(self, member_id: str, epoch: int, **said: object) -> Answer | None:
        return self.ask(ConsumerBeat(member_id, epoch, **said))  # type: ignore[arg-type]

    def join(self, member_id: str, *topics: str, **said: object) -> Answer | None:
        whole = {"rebalance_timeout_ms": REBALANCE_MS, "topics": topics or ("t",), "owned": frozenset()}
        return self.beat(member_id, 0, **(whole | said))

    def let_pass(self, duration_ms: int) -> None:
        """Rings the timers that are due, in their order."""
        end_ms = self.now_ms + duration_ms
        while self.timers:
            timer = min(self.timers, key=lambda each: self.timers[each])
            if self.timers[timer] > end_ms:
                break
            self.now_ms = self.timers.pop(timer)
            self.ask(TimerRang(timer))
        self.now_ms = end_ms

    def _check(self) -> None:
        for record in self.last:
            self._log.append(encode_record(record))  # type: ignore[arg-type]
            assert decode_record(self._log[-1]) == record
            if isinstance(record, ConsumerRecord):
                self._replayed.read(record)
        if not isinstance(self.any_group, ConsumerGroup):
            assert self._replayed.is_nothing
            return
        if self.group.is_dead:
            assert self._replayed.is_nothing
            return
        replayed = self._replayed.group()
        assert replayed == msgspec.structs.replace(self.group, seen=None, seen_by_patterns=None)
        holders: dict[PartitionOfId, str] = {}
        for member in self.group.members.values():
            for partition in member.held:
                assert holders.setdefault(partition, member.member_id) == member.member_id, "two owners"
        assert holders == self.group.holders


class PlainMember:
    """A client as KIP-848 describes it: it gives back what it is not to have, says so, and takes what it gets."""

    def __init__(
        self, world: ConsumerWorld, member_id: str, topics: tuple[str, ...], pattern: str | None = None
    ) -> None:
        self._world = world
        self.member_id = member_id
        self.topics = topics
        self.pattern = pattern
        self.epoch = 0
        self.owned: frozenset[PartitionOfId] = frozenset()
        self._said_owned: frozenset[PartitionOfId] | None = None
        self._says_topics = True

    def beat(self, *, loses_answer: bool = False) -> None:
        says_owned = self.epoch == 0 or self.owned != self._said_owned
        answer = self._world.ask(
            ConsumerBeat(
                self.member_id,
                self.epoch,
                rebalance_timeout_ms=REBALANCE_MS if self.epoch == 0 or self._says_topics else -1,
                topics=self.topics if self.epoch == 0 or self._says_topics else None,
                regex=self.pattern if self.epoch == 0 or self._says_topics else None,
                owned=self.owned if says_owned or self._says_topics else None,
            )
        )
        if loses_answer:
            self._says_topics = True
            return
        if isinstance(answer, ErrorCode):
            assert answer in {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}, answer
            self.epoch, self.owned, self._said_owned = 0, frozenset(), None
            return
        assert isinstance(answer, BeatAnswer)
        self.epoch, self._said_owned, self._says_topics = answer.epoch, self.owned, False
        if answer.assigned is not None:
            self.owned = answer.assigned

    def subscribe(self, topics: tuple[str, ...]) -> None:
        self.topics, self._says_topics = topics, True

    def wants(self, names: Iterable[str]) -> set[str]:
        return set(self.topics) | {name for name in names if re.fullmatch(self.pattern or "", name)}

    def leave(self) -> None:
        self._world.beat(self.member_id, -1)
        self.owned = frozenset()
