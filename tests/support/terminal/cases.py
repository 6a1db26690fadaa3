"""Lists what every command does in every state: nothing to do, work, failure, Ctrl-C.

A command has one ``Case`` for each state, or a sentence that says why it has none. ``{...}`` in words are places of the
scene: ``{store}`` a store with work to do, of which each run gets a copy of its own, ``{done}`` the same after
maintenance, ``{tabled}`` a store with the topic ``kept``, which was exported to a table, and ``fresh``, which was not
exported yet, ``{backup}`` a backup of ``{store}``, ``{empty}`` a store without streams, ``{broken}`` a store that has
lost an object, ``{nowhere}`` a folder that does not exist; ``{at}`` a broker
with the topic ``full``, ``{idle}`` one without topics, ``{closed}`` an address at which nothing listens; ``{topic}``
and ``{group}`` a topic and a group that only this run uses.
"""

import shlex
from collections.abc import Mapping
from enum import StrEnum

import msgspec


class State(StrEnum):
    NOTHING = "nothing to do"
    WORK = "work"
    FAILURE = "failure"
    CTRL_C = "ctrl-c"


class Case(msgspec.Struct, frozen=True):
    """``shows``: a pattern that stdout or stderr has. ``ctrl_c``: the pattern after which Ctrl-C is pressed; "" presses
    it when the command begins, None never. ``typed``: the input; at a terminal Ctrl-D follows. ``is_slow``: runs with
    the nightly tests only. ``is_story``: is drawn in a pipe, too."""

    line: str
    status: int = 0
    shows: str = "."
    ctrl_c: str | None = None
    typed: str = ""
    is_slow: bool = False
    is_story: bool = False

    def words(self, places: Mapping[str, str]) -> list[str]:
        return [word.format_map(places) for word in shlex.split(self.line)]


INTERRUPTED = 130
SAID_INTERRUPTED = "siltstone: interrupted"


def begun(line: str) -> Case:
    """Makes a case with Ctrl-C when the command begins."""
    return Case(line, INTERRUPTED, SAID_INTERRUPTED, ctrl_c="")


def row(
    nothing: Case | str, work: Case | str, failure: Case | str, ctrl_c: Case | str
) -> dict[State, Case | str]:
    return dict(zip(State, (nothing, work, failure, ctrl_c), strict=True))


NO_BROKER = "no broker at 127.0.0.1"
NO_STORE = "no store"
