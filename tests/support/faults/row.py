"""Defines a row of the table of faults: where it happens, what is broken, what heals it, and what is wanted."""

from enum import Enum

import msgspec

from support.faults.scene import Place
from support.faults.steps import Step, nothing


class Acks(Enum):
    """Says what producers get while the fault lasts."""

    GO_ON = "they continue"
    UNTIL_THE_LOG_IS_FULL = "they continue until the log is full, then wait"
    NO_MATTER = "nothing is wanted of them"


class Reads(Enum):
    """Says what a consumer that reads from the beginning gets while the fault lasts."""

    ALL = "everything acknowledged"
    NEWEST = "what needs no bucket"
    NO_MATTER = "nothing is wanted of it"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """``log``: patterns that one line has to match, of those that the broker logs or the command prints.
    ``exit_statuses``: those of a process that ends by itself. ``heals_seconds``: the time within which
    acknowledgements continue after healing. ``full_disk``: the disk that the metrics show to be full, and because of
    which the broker is not ready."""

    acks: Acks = Acks.GO_ON
    reads: Reads = Reads.NO_MATTER
    log: tuple[str, ...] = ()
    exit_statuses: tuple[int, ...] = ()
    heals_seconds: float = 30
    full_disk: str = ""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """``play``: the order in which things happen, a name of ``plays.PLAYS``. ``before``: the step before the fault.
    ``command``: the command that is tried under the fault; without one a broker is started, with ``settings``.
    ``lasts_seconds``: how long producers are watched under the fault. ``rule``: the number of the rule of
    docs/rules.md that the row tests."""

    id: str
    rule: int = 12
    play: str
    fault: Step
    heal: Step = nothing
    before: Step | None = None
    command: tuple[str, ...] = ()
    settings: dict[str, str] = {}
    place: Place = Place()
    lasts_seconds: float = 2
    wanted: Wanted = Wanted()
