"""One group, its timers and its clients, without a coordinator: decisions are performed on plain dicts."""

from siltstone.broker.groups.rules.deciding import decide
from siltstone.broker.groups.rules.decision import AnswerTo, CancelTimer, GroupDecision, SetTimer
from siltstone.broker.groups.rules.group import Group, Protocol
from siltstone.broker.groups.rules.requests import (
    Answer,
    GroupTimer,
    Heartbeat,
    Join,
    Joined,
    Leave,
    LeavingMember,
    Request,
    Sync,
    TimerRang,
)
from siltstone.broker.groups.settings import GroupSettings
from support.groups.consumer_bytes import subscription

START_MS = 1_700_000_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000
RANGE = (Protocol("range", subscription("flights")),)
NO_DELAY = GroupSettings(group_initial_rebalance_delay_ms=0)


def join(
    member_id: str = "",
    *,
    new: str = "new",
    instance: str | None = None,
    protocols: tuple[Protocol, ...] = RANGE,
    protocol_type: str = "consumer",
    session_ms: int = SESSION_MS,
    rebalance_ms: int = REBALANCE_MS,
    takes_member_id: bool = False,
    can_skip_assignment: bool = True,
) -> Join:
    return Join(
        member_id=member_id,
        instance_id=instance,
        client_id="client",
        client_host="/10.0.0.1",
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        protocol_type=protocol_type,
        protocols=protocols,
        new_member_id=new,
        takes_member_id=takes_member_id,
        can_skip_assignment=can_skip_assignment,
    )


class GroupWorld:
    """``answers`` by ticket; a ticket without one waits."""

    def __init__(self, settings: GroupSettings = NO_DELAY, group: Group | None = None) -> None:
        self.settings = settings
        self.group = Group("readers") if group is None else group
        self.now_ms = START_MS
        self.answers: dict[int, Answer] = {}
        self.waiting: set[int] = set()
        self.timers: dict[GroupTimer, int] = {}
        self.records: list[object] = []
        self._tickets = 0

    def ask(self, request: Request) -> int:
        """Asks, and returns the ticket of the answer."""
        self._tickets += 1
        self.waiting.add(self._tickets)
        self._perform(decide(self.group, request, self._tickets, self.now_ms, self.settings))
        return self._tickets

    def tell(self, request: Request) -> None:
        """Asks for something whose answer nobody awaits."""
        self._perform(decide(self.group, request, 0, self.now_ms, self.settings))

    def answer(self, request: Request) -> Answer:
        """Returns the answer of a request that is answered at once."""
        return self.answers[self.ask(request)]

    def pass_ms(self, duration_ms: int) -> None:
        """Timers ring when they are due, in order."""
        until_ms = self.now_ms + duration_ms
        while self.timers and min(self.timers.values()) <= until_ms:
            timer, due_ms = min(self.timers.items(), key=lambda item: item[1])
            self.now_ms = max(self.now_ms, due_ms)
            self.ring(timer)
        self.now_ms = until_ms

    def ring(self, timer: GroupTimer) -> None:
        self.timers.pop(timer, None)
        self.tell(TimerRang(timer))

    def _perform(self, decision: GroupDecision) -> None:
        self.group = decision.group
        self.records += decision.records
        for action in decision.actions:
            match action:
                case AnswerTo(ticket, answer):
                    self.waiting.remove(ticket)
                    self.answers[ticket] = answer
                case SetTimer(timer, delay_ms):
                    self.timers[timer] = self.now_ms + delay_ms
                case CancelTimer(timer):
                    self.timers.pop(timer, None)

    # -- stories -----------------------------------------------------------------------------------------

    def all_join(self, *member_ids: str, static: tuple[str, ...] = ()) -> dict[str, Joined]:
        """New members join an empty group, and the join phase ends. Static ones have their id as instance id."""
        tickets = {
            name: self.ask(join(new=name, instance=name if name in static else None)) for name in member_ids
        }
        while self.waiting & set(tickets.values()):
            self.pass_ms(min(self.timers.values()) - self.now_ms)
        return {name: self.joined(ticket) for name, ticket in tickets.items()}

    def joined(self, ticket: int) -> Joined:
        answer = self.answers[ticket]
        assert isinstance(answer, Joined), answer
        return answer

    def all_sync(self, **assignments: str) -> dict[str, int]:
        """The leader last, so that the others wait for it. Tickets."""
        leader_id = self.group.leader_id
        names = sorted(self.group.members, key=lambda name: name == leader_id)
        given = {name: assignments.get(name, name).encode() for name in names}
        return {name: self.ask(self.sync(name, given if name == leader_id else {})) for name in names}

    def sync(self, name: str, assignments: dict[str, bytes] | None = None) -> Sync:
        member = self.group.members[name]
        return Sync(name, member.instance_id, self.group.generation, assignments=assignments or {})

    def beat(self, name: str) -> Answer:
        member = self.group.members[name]
        return self.answer(Heartbeat(name, member.instance_id, self.group.generation))

    def leave(self, *names: str) -> Answer:
        return self.answer(Leave(tuple(LeavingMember(name) for name in names)))

    def rejoin(self, name: str, **changes: object) -> int:
        member = self.group.members[name]
        return self.ask(join(name, instance=member.instance_id, **changes))  # type: ignore[arg-type]


def stable(*names: str, static: tuple[str, ...] = (), settings: GroupSettings = NO_DELAY) -> GroupWorld:
    """A stable group of them; the first leads, and everybody's assignment is its name."""
    world = GroupWorld(settings)
    world.all_join(*names, static=static)
    world.all_sync()
    assert world.group.state.value == "Stable"
    return world
