"""Patterns of names that clients send: of topics with ConsumerGroupHeartbeat, of transactional ids with
ListTransactions. Pure.

The package re2 matches them, and Apache Kafka a sibling of it. The time grows with the length of the pattern times that
of the name: Python's ``re`` takes minutes for some patterns of 20 characters, and the broker would answer nobody
meanwhile (decision 59).
"""

from functools import lru_cache

import re2

from siltstone.model.errors import InvalidRequest

CHARACTERS_MAX = 1_000
"""Far longer than any pattern a person writes; a longer one is refused before it is looked at."""

MEMORY_BYTES_MAX = 1 << 20
"""A pattern that takes more when it is compiled is refused."""

PATTERNS_KEPT = 256


class PatternRefused(InvalidRequest):
    """A pattern of names cannot be read by re2, or is too large."""


class NamePattern:
    """Matches whole names. Raises PatternRefused."""

    def __init__(self, text: str) -> None:
        if len(text) > CHARACTERS_MAX:
            raise PatternRefused(f"a pattern of {len(text)} characters: give at most {CHARACTERS_MAX}")
        try:
            self._compiled = _compiled(text)
        except re2.error as failure:
            (reason,) = failure.args
            said = reason.decode(errors="replace") if isinstance(reason, bytes) else reason
            raise PatternRefused(f"the pattern {text!r} cannot be read: {said}") from failure

    def matches(self, whole: str) -> bool:
        return self._compiled.fullmatch(whole) is not None


@lru_cache(PATTERNS_KEPT)
def _compiled(text: str) -> "re2._Regexp":
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_BYTES_MAX
    return re2.compile(text, options=options)
