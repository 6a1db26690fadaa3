"""A client of the classic protocol in a ``ConsumerWorld``: eager, or cooperative."""

from siltstone.broker.groups.consumer_protocol.embedded import (
    NamedPartition,
    read_assignment,
    read_subscription,
    written_assignment,
)
from siltstone.broker.groups.rules.group import Protocol
from siltstone.broker.groups.rules.requests import (
    Answer,
    Assigned,
    Heartbeat,
    Join,
    Joined,
    Leave,
    LeavingMember,
    MemberIdGiven,
    Sync,
)
from siltstone.kafka_protocol.error_code import ErrorCode
from support.groups.consumer_bytes import subscription
from support.groups.consumer_world import REBALANCE_MS, ConsumerWorld

SESSION_MS = 10_000
EAGER, COOPERATIVE = "range", "cooperative-sticky"


class PlainClassicMember:
    """Each ``step`` sends one request, or looks for the answer to one. ``owned``: what it reads. A cooperative member
    goes on with what it owns while it joins, and an eager one gives up everything first."""

    pattern = None

    def __init__(
        self,
        world: ConsumerWorld,
        name: str,
        topics: tuple[str, ...],
        protocol: str = EAGER,
        instance_id: str | None = None,
    ) -> None:
        self._world, self._name, self.topics = world, name, topics
        self._protocol, self._instance_id = protocol, instance_id
        self.member_id, self.generation = "", -1
        self.owned: frozenset[NamedPartition] = frozenset()
        self._joined: Joined | None = None
        self._waits_for: tuple[int, str] | None = None
        self._topics_said: tuple[str, ...] = ()
        self._has_to_join = True

    @property
    def is_settled(self) -> bool:
        return not self._has_to_join and self._waits_for is None and self._joined is None

    def step(self) -> None:
        if self._waits_for is not None:
            ticket, asked = self._waits_for
            if (answer := self._world.answers.get(ticket)) is not None:
                self._waits_for = None
                self._told(asked, answer)
        elif self._has_to_join:
            self._join()
        elif self._joined is not None:
            self._sync(self._joined)
        else:
            beat = Heartbeat(self.member_id, self._instance_id, self.generation)
            self._told("beat", self._world.ask(beat))

    def subscribe(self, topics: tuple[str, ...]) -> None:
        self.topics, self._has_to_join = topics, True

    def wants(self, _: object) -> set[str]:
        return set(self.topics)

    def leave(self) -> None:
        self._world.ask(Leave((LeavingMember(self.member_id, self._instance_id),)))
        self.owned = frozenset()

    def _join(self) -> None:
        if self._protocol == EAGER:
            self.owned = frozenset()
        self._joined, self._topics_said = None, self.topics
        owned: dict[str, list[int]] = {}
        for name, number in sorted(self.owned):
            owned.setdefault(name, []).append(number)
        metadata = subscription(*self.topics, owned=owned)
        join = Join(
            member_id=self.member_id,
            instance_id=self._instance_id,
            client_id=self._name,
            client_host="/127.0.0.1",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=(Protocol(self._protocol, metadata),),
            new_member_id=f"{self._name}-{self._world.tickets}",
        )
        self._told("join", self._world.ask(join))

    def _sync(self, joined: Joined) -> None:
        leads = joined.leader_id == self.member_id
        sync = Sync(
            self.member_id,
            self._instance_id,
            self.generation,
            "consumer",
            joined.protocol_name,
            self._assigned(joined) if leads else {},
        )
        self._told("sync", self._world.ask(sync))

    def _assigned(self, joined: Joined) -> dict[str, bytes]:
        """A leader gives a partition that a member owns to nobody else."""
        said = {member.member_id: read_subscription(member.metadata) for member in joined.members}
        owners = {key: member_id for member_id, each in said.items() if each for key in each.owned}
        given: dict[str, list[NamedPartition]] = {member_id: [] for member_id in said}
        for topic in self._world.topics.all():
            sharing = sorted(
                member_id for member_id, each in said.items() if each and topic.name in each.topics
            )
            for number in range(topic.partition_count if sharing else 0):
                chosen, key = sharing[number % len(sharing)], (topic.name, number)
                if owners.get(key, chosen) == chosen:
                    given[chosen].append(key)
        return {member_id: written_assignment(keys, 1) for member_id, keys in given.items()}

    def _told(self, asked: str, answer: Answer | None) -> None:
        match answer:
            case None:
                self._waits_for = (self._world.tickets, asked)
            case MemberIdGiven(member_id):
                self.member_id = member_id
            case Joined():
                self.member_id, self.generation = answer.member_id, answer.generation
                self._joined, self._has_to_join = answer, self._topics_said != self.topics
            case Assigned():
                assigned = read_assignment(answer.assignment)
                assert assigned is not None
                self._has_to_join |= self._protocol == COOPERATIVE and not self.owned <= assigned
                self.owned, self._joined = assigned, None
            case ErrorCode.NONE:
                pass
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self._has_to_join = True
            case ErrorCode.NOT_COORDINATOR:
                self._has_to_join |= asked != "beat"
            case _:
                assert answer in {
                    ErrorCode.UNKNOWN_MEMBER_ID,
                    ErrorCode.ILLEGAL_GENERATION,
                    ErrorCode.FENCED_INSTANCE_ID,
                }, (asked, answer)
                if answer is not ErrorCode.ILLEGAL_GENERATION:
                    self.member_id = ""
                self.owned, self.generation, self._has_to_join = frozenset(), -1, True
