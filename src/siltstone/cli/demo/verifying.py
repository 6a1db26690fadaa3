"""Every record read back and compared with its source, one by one: by a new node, from objects, through the engine."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from siltstone.cli.demo.flights import Flight, StreamName
from siltstone.cli.demo.reading import read_whole_stream
from siltstone.cli.demo.story import OnProgress
from siltstone.model.record_batch import RecordBatch
from siltstone.server.components import Node, open_node
from siltstone.server.settings import StoreSettings


class Mismatch(msgspec.Struct, frozen=True):
    """What lies at an offset, and what should: None for nothing at all."""

    stream: StreamName
    offset: int
    expected: bytes | None
    found: bytes | None

    def __str__(self) -> str:
        return f"{self.stream}, offset {self.offset}: {self.found!r} instead of {self.expected!r}"


class Verification(msgspec.Struct, frozen=True):
    records_equal: int
    mismatches: list[Mismatch]


async def verify(
    settings: StoreSettings,
    streams: Mapping[StreamName, int],
    flights: Iterable[Flight],
    on_progress: OnProgress,
) -> Verification:
    """``flights`` in the order they were appended. Caches are empty: everything comes from objects."""
    expected: defaultdict[StreamName, list[bytes]] = defaultdict(list)
    for flight in flights:
        expected[flight.stream].append(flight.line)
    mismatches: list[Mismatch] = []
    async with open_node(settings) as node:
        for done, (name, stream_id) in enumerate(streams.items(), start=1):
            mismatches += compare(name, expected[name], await _records(node, stream_id))
            on_progress(done, len(streams))
    records = sum(map(len, expected.values()))
    wrong = sum(mismatch.expected is not None for mismatch in mismatches)
    return Verification(records - wrong, mismatches)


async def _records(node: Node, stream_id: int) -> list[tuple[int, bytes]]:
    return [record async for batch in read_whole_stream(node, stream_id) for record in _records_of(batch)]


def _records_of(batch: RecordBatch) -> list[tuple[int, bytes]]:
    return list(enumerate(bytes(batch.payload).split(b"\n"), start=batch.base_offset))


def compare(
    name: StreamName, expected: Sequence[bytes], found: Sequence[tuple[int, bytes]]
) -> list[Mismatch]:
    """What was lost, altered, added, or came twice. The record at offset n is the n-th of the source."""
    missing = dict(enumerate(expected))
    mismatches: list[Mismatch] = []
    for offset, record in found:
        wanted = missing.pop(offset, None)
        if record != wanted:
            mismatches.append(Mismatch(name, offset, wanted, record))
    return mismatches + [Mismatch(name, offset, record, None) for offset, record in missing.items()]
