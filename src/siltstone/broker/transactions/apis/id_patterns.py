"""Patterns of transactional ids that clients send with ListTransactions. Pure.

A pattern is matched in time that grows with its length times the length of the id, whatever the pattern: Python's
``re`` takes minutes for some of 20 characters, and the broker would answer nobody meanwhile. Known are characters,
``.``, ``[...]``, escapes such as ``\\d`` and ``\\.``, groups, ``|``, ``*``, ``+`` and ``?``, without a second ``?``
behind them; Kafka's patterns have counts such as ``{2,3}``, too."""

import re
from collections.abc import Callable, Set

from siltstone.model.errors import InvalidRequest

CHARACTERS_MAX = 1_000
"""Far longer than any pattern a person writes; a longer one is refused before it is looked at."""

DEPTH_MAX = 50

_CLASS_ESCAPES = frozenset("dDwWsS")


class PatternRefused(InvalidRequest):
    """A pattern of transactional ids is none, or has what is not known here."""


class IdPattern:
    """Raises PatternRefused."""

    def __init__(self, text: str) -> None:
        if len(text) > CHARACTERS_MAX:
            raise PatternRefused(f"a pattern of {len(text)} characters: give at most {CHARACTERS_MAX}")
        self._jumps: list[list[int]] = []
        """For each state, the states that are reached from it without reading."""
        self._reads: dict[int, tuple[Callable[[str], bool], int]] = {}
        """For each state that reads a character: which ones, and the state after it."""
        self._text = text
        self._position = 0
        self._start, self._end = self._alternatives(0)
        if self._position < len(text):
            raise PatternRefused(f"the pattern {text!r} has a ')' that closes nothing")

    def matches(self, whole: str) -> bool:
        states = self._reached({self._start})
        for character in whole:
            after = {self._reads[state][1] for state in states if self._reads_it(state, character)}
            if not after:
                return False
            states = self._reached(after)
        return self._end in states

    def _reads_it(self, state: int, character: str) -> bool:
        read = self._reads.get(state)
        return read is not None and read[0](character)

    def _reached(self, states: Set[int]) -> set[int]:
        """Returns the states that are reached without reading."""
        reached, left = set(states), list(states)
        while left:
            for state in self._jumps[left.pop()]:
                if state not in reached:
                    reached.add(state)
                    left.append(state)
        return reached

    # -- from text to states -----------------------------------------------------------------------------

    def _alternatives(self, depth: int) -> tuple[int, int]:
        if depth > DEPTH_MAX:
            raise PatternRefused(f"a pattern has more than {DEPTH_MAX} groups in each other")
        start, end = self._state(), self._state()
        while True:
            first, last = self._sequence(depth)
            self._jumps[start].append(first)
            self._jumps[last].append(end)
            if self._peek() != "|":
                return start, end
            self._position += 1

    def _sequence(self, depth: int) -> tuple[int, int]:
        start = end = self._state()
        while self._peek() not in ("", "|", ")"):
            first, last = self._repeated(*self._atom(depth))
            self._jumps[end].append(first)
            end = last
        return start, end

    def _repeated(self, first: int, last: int) -> tuple[int, int]:
        mark = self._peek()
        if mark not in ("*", "+", "?"):
            return first, last
        self._position += 1
        if self._peek() in ("*", "+", "?"):
            raise PatternRefused(f"the pattern {self._text!r} repeats a repetition")
        start, end = self._state(), self._state()
        self._jumps[start].append(first)
        self._jumps[last].append(end)
        if mark != "+":
            self._jumps[start].append(end)
        if mark != "?":
            self._jumps[last].append(first)
        return start, end

    def _atom(self, depth: int) -> tuple[int, int]:
        character = self._peek()
        if character in "*+?{}":
            raise PatternRefused(
                f"the pattern {self._text!r} has {character!r} where no character is repeated"
            )
        if character == "(":
            return self._group(depth)
        text = self._taken(character)
        start, end = self._state(), self._state()
        self._reads[start] = (_reader(text), end)
        return start, end

    def _group(self, depth: int) -> tuple[int, int]:
        self._position += 1
        if self._peek() == "?":
            raise PatternRefused(f"the pattern {self._text!r} has '(?', which is not known")
        states = self._alternatives(depth + 1)
        if self._peek() != ")":
            raise PatternRefused(f"the pattern {self._text!r} has a '(' without its ')'")
        self._position += 1
        return states

    def _taken(self, character: str) -> str:
        """Returns the text of the atom that reads one character, and moves behind it."""
        begin = self._position
        if character == "[":
            closed = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]").match(self._text, begin)
            if closed is None:
                raise PatternRefused(f"the pattern {self._text!r} has a '[' without its ']'")
            self._position = closed.end()
        else:
            self._position += 2 if character == "\\" else 1
        return self._text[begin : self._position]

    def _peek(self) -> str:
        return self._text[self._position : self._position + 1]

    def _state(self) -> int:
        self._jumps.append([])
        return len(self._jumps) - 1


def _reader(text: str) -> Callable[[str], bool]:
    if len(text) == 1 and text not in ".^$\\":
        return lambda character: character == text
    if text in ("^", "$"):
        raise PatternRefused(f"{text!r} is not needed in a pattern: it is always matched as a whole")
    if text[0] == "\\" and (len(text) < 2 or (text[1].isalnum() and text[1] not in _CLASS_ESCAPES)):
        raise PatternRefused(f"the pattern has {text!r}, which is not known")
    try:
        found = re.compile(text, re.DOTALL)
    except re.error as failure:
        raise PatternRefused(f"{text!r} in the pattern: {failure}") from failure
    return lambda character: found.fullmatch(character) is not None
