"""The largest topics have series of their own, and all others have one row together. Pure.

No counter may fall, and their sum must be the whole traffic. So a topic that gets a series later begins at 0: its
earlier traffic stays in the row of the others (its *base*). When a topic loses its series, or is deleted, the value of
its series is added to that row. A topic with a series keeps it until another has twice its traffic.
"""

from collections.abc import Generator, Iterator, Mapping
from itertools import islice

import msgspec

TOPICS_PER_TURN = 1_000
"""Topics that are ranked between two yields: less than a millisecond."""

Bytes = tuple[int, int]
"""Bytes in and bytes out."""
NOTHING: Bytes = (0, 0)


class TopicShares(msgspec.Struct, frozen=True):
    """``shown`` by topic id, and the rest."""

    shown: dict[str, Bytes]
    others: Bytes


class LargestTopics:
    def __init__(self, shown_max: int) -> None:
        self._shown_max = shown_max
        self._bases: dict[str, Bytes] = {}
        self._are_others = False
        self.shares = TopicShares({}, NOTHING)

    def look(self, totals: Mapping[str, Bytes], deleted: Bytes) -> Iterator[None]:
        """Sets ``shares``. ``totals`` is the traffic of each topic id since the start, ``deleted`` that of deleted
        topics.
        Yields from time to time, so that a caller can let other tasks run."""
        ranked = yield from self._ranked(totals)
        bases = {
            topic: self._bases.get(topic, totals[topic] if self._are_others else NOTHING) for topic in ranked
        }
        shown = {topic: _minus(totals[topic], base) for topic, base in bases.items()}
        yield
        in_bytes, out_bytes = deleted
        for topic_in, topic_out in totals.values():
            in_bytes, out_bytes = in_bytes + topic_in, out_bytes + topic_out
        for topic_in, topic_out in shown.values():
            in_bytes, out_bytes = in_bytes - topic_in, out_bytes - topic_out
        self._bases, self._are_others = bases, len(totals) > len(shown)
        self.shares = TopicShares(shown, (in_bytes, out_bytes))

    def _ranked(self, totals: Mapping[str, Bytes]) -> Generator[None, None, list[str]]:
        if len(totals) <= self._shown_max:
            return list(totals)
        best: list[tuple[int, str]] = []
        left = iter(totals.items())
        while lot := list(islice(left, TOPICS_PER_TURN)):
            best += [(sum(total) * (2 if topic in self._bases else 1), topic) for topic, total in lot]
            best = sorted(best, reverse=True)[: self._shown_max]
            yield
        return [topic for _, topic in best]


def _minus(total: Bytes, base: Bytes) -> Bytes:
    return total[0] - base[0], total[1] - base[1]
