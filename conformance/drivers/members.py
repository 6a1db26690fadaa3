"""Plays of several members of a group, the same for every client whose consumer can be wrapped as a ``Reader``."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Protocol

from conformance.drivers.scenario import Mismatch, Scenario, same, until, values

PARTITIONS = 6
_JOIN_SECONDS_MAX = 20


class Reader(Protocol):
    """The consumer of one member, used by one thread. It commits what it has read before its partitions are revoked,
    and when it is closed."""

    rebalances: int
    """Returns how often the member was assigned partitions."""

    def poll(self) -> Sequence[bytes | None]:
        """Returns the values of the records that arrive within a moment."""

    def owned(self) -> Sequence[int]:
        """Returns the partitions of the member."""

    def close(self) -> None: ...


Join = Callable[[str], Reader]
"""Returns the partitions, each with its topic."""


class Member:
    """A reader, and the thread that polls it."""

    def __init__(self, reader: Reader) -> None:
        self.got: list[bytes | None] = []
        self.owned: list[int] = []
        self.failure: Exception | None = None
        self._reader = reader
        self._is_leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def rebalances(self) -> int:
        return self._reader.rebalances

    def leave(self) -> None:
        self._is_leaving.set()
        self._thread.join(_JOIN_SECONDS_MAX)
        if self._thread.is_alive():
            raise Mismatch(f"a member does not leave within {_JOIN_SECONDS_MAX} s")

    def raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            while not self._is_leaving.is_set():
                self.got += self._reader.poll()
                self.owned = sorted(self._reader.owned())
            self._reader.close()
        except Exception as error:  # raised where the play waits
            self.failure = error


@contextmanager
def joined(*readers: Reader) -> Iterator[list[Member]]:
    with ExitStack() as leaving:
        members: list[Member] = []
        for reader in readers:
            members.append(Member(reader))
            leaving.callback(members[-1].leave)
        yield members


def every_record_once(scenario: Scenario, join: Join) -> None:
    """Two members share the partitions, a third one joins while records are produced, and then the first one leaves."""
    topic = scenario.topic(PARTITIONS)
    with ExitStack() as leaving:
        members: list[Member] = []

        def add() -> None:
            members.append(Member(join(topic)))
            leaving.callback(members[-1].leave)

        add()
        add()
        settle(members)
        fill_all(scenario, topic, range(20))
        add()
        settle(members)
        fill_all(scenario, topic, range(20, 40))
        members[0].leave()
        settle(members[1:])
        fill_all(scenario, topic, range(40, 60))
        wanted = sorted(value for partition in range(PARTITIONS) for value in values(partition, range(60)))
        wait_for(members, "all records", lambda: read_by(members) >= len(wanted))
        time.sleep(0.3)  # for one that comes twice
        same("records", sorted(value or b"" for member in members for value in member.got), wanted)


def static_member(scenario: Scenario, join: Callable[[str, str], Reader]) -> None:
    """A static member returns to its partitions, without a rebalance of the others."""
    topic = scenario.topic(PARTITIONS)
    with joined(join(topic, "stays"), join(topic, "returns")) as (stays, returns):
        settle([stays, returns])
        had, rebalances = returns.owned, stays.rebalances
        returns.leave()
        with joined(join(topic, "returns")) as (again,):
            wait_for([stays, again], "its partitions again", lambda: again.owned == had)
            fill_all(scenario, topic, range(5))
            wait_for([stays, again], "all records", lambda: read_by([stays, again]) == 5 * PARTITIONS)
            time.sleep(1)  # some heartbeats, by which a rebalance would be told
            same("rebalances that the other saw", stays.rebalances, rebalances)


def settle(members: Sequence[Member]) -> None:
    """Waits until each member has its share."""
    share = PARTITIONS // len(members)
    each_has_its_share = lambda: [len(member.owned) for member in members] == [share] * len(members)  # noqa: E731
    wait_for(members, f"{len(members)} members with {share} partitions each", each_has_its_share)


def wait_for(members: Sequence[Member], what: str, condition: Callable[[], object]) -> None:
    def met() -> object:
        for member in members:
            member.raise_failure()
        return condition()

    until(what, met, seconds_max=30)


def read_by(members: Sequence[Member]) -> int:
    return sum(len(member.got) for member in members)


def fill_all(scenario: Scenario, topic: str, numbers: range) -> None:
    for partition in range(PARTITIONS):
        scenario.ask("fill", topic=topic, count=len(numbers), partition=partition, first=numbers.start)


class SharingMember(Protocol):
    """A member of a share group. ``poll`` returns the values that come within a moment with how often they were
    delivered, all of them acknowledged so."""

    def poll(self, *, accepts: bool) -> Sequence[tuple[bytes | None, int]]: ...

    def close(self) -> None: ...


def share_group(scenario: Scenario, begin: Callable[[str], SharingMember]) -> None:
    """A member releases what it gets first, then accepts all; another one gets what is sent later, and nothing else."""
    topic = scenario.filled(10)
    scenario.ask("share_all", group=scenario.name)
    first = begin(topic)
    released: list[tuple[bytes | None, int]] = []
    until("records", lambda: released.extend(first.poll(accepts=False)) or released)
    same("delivered once", {count for _, count in released}, {1})
    accepted: dict[bytes | None, int] = {}
    until("ten records", lambda: accepted.update(first.poll(accepts=True)) or len(accepted) >= 10)
    again = {value: 2 for value, _ in released}
    same("all of them", accepted, dict.fromkeys(values(0, range(10)), 1) | again)
    first.close()
    second = begin(topic)
    scenario.ask("fill", topic=topic, count=5, first=10)
    later: list[tuple[bytes | None, int]] = []
    until("five records", lambda: later.extend(second.poll(accepts=True)) or len(later) >= 5)
    same("only new ones", later, [(value, 1) for value in values(0, range(10, 15))])
    second.close()
