"""Compares all consumed records with their source: no record may be lost, altered, duplicated or out of order.

Topic, key, value and timestamp are compared. Records of one key are compared in the order of their offsets.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from siltstone.cli.demo.flights import Flight
from siltstone.cli.demo.kafka_client import Consumed
from siltstone.cli.words import time_words

Key = tuple[str, bytes]
"""Topic and tail number."""


class Sent(msgspec.Struct, frozen=True, gc=False):
    timestamp_ms: int
    value: bytes

    def __str__(self) -> str:
        return f"{self.value.decode(errors='replace')} at {time_words(self.timestamp_ms)}"


class Mismatch(msgspec.Struct, frozen=True):
    """``number``: the position among the records of the key, from 0. ``expected`` None: there should be no such record;
    ``found`` None: there is none."""

    topic: str
    tail_number: str
    number: int
    expected: Sent | None
    found: Sent | None

    def __str__(self) -> str:
        place = f"{self.topic}, plane {self.tail_number}, record {self.number}"
        return f"{place}: {self.found or 'nothing'} instead of {self.expected or 'nothing'}"


class Verification(msgspec.Struct, frozen=True):
    records_equal: int
    records_expected: int
    mismatches: list[Mismatch]


def verify(flights: Iterable[Flight], consumed: Iterable[Consumed]) -> Verification:
    """``flights``: in the order in which they were produced; ``consumed``: in any order."""
    expected: defaultdict[Key, list[Sent]] = defaultdict(list)
    for flight in flights:
        for topic in flight.topics:
            expected[topic, flight.tail_number].append(Sent(flight.departure_ms, flight.line))
    found: defaultdict[Key, list[Sent]] = defaultdict(list)
    for record in sorted(consumed, key=lambda record: (record.topic, record.partition, record.offset)):
        found[record.topic, record.key].append(Sent(record.timestamp_ms, record.value))
    mismatches = [
        mismatch
        for key in expected.keys() | found.keys()
        for mismatch in compare(key, expected[key], found[key])
    ]
    records = sum(map(len, expected.values()))
    wrong = sum(mismatch.expected is not None for mismatch in mismatches)
    return Verification(records - wrong, records, mismatches)


def compare(key: Key, expected: Sequence[Sent], found: Sequence[Sent]) -> list[Mismatch]:
    topic, tail_number = key
    mismatches: list[Mismatch] = []
    for number in range(max(len(expected), len(found))):
        wanted = expected[number] if number < len(expected) else None
        got = found[number] if number < len(found) else None
        if wanted != got:
            mismatches.append(Mismatch(topic, tail_number.decode(errors="replace"), number, wanted, got))
    return mismatches
