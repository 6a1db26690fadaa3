"""Appending: one stream per carrier and airport, in time order, through a real engine and its write-ahead log."""

import asyncio
from collections import deque
from collections.abc import Sequence

import msgspec

from siltstone.cli.demo.flights import FlightBatch, StreamName
from siltstone.cli.demo.story import OnProgress
from siltstone.runtime.clock import Clock
from siltstone.server.components import running_node
from siltstone.server.settings import StoreSettings
from siltstone.stream_engine.engine import StreamEngine
from siltstone.stream_engine.stream import Stream

UNANSWERED_MAX = 1_000
"""Appends under way at a time: enough for groups to form, few enough that the answers count."""


class LoadReport(msgspec.Struct, frozen=True):
    """``seconds`` until the last append was answered. ``syncs``: how often the log was forced to the disk."""

    streams: dict[StreamName, int]
    appends: int
    syncs: int
    seconds: float


async def load(
    settings: StoreSettings, batches: Sequence[FlightBatch], clock: Clock, on_progress: OnProgress
) -> LoadReport:
    """Makes the store. When it returns, everything is in objects."""
    async with running_node(settings) as engine:
        streams = await _open_streams(engine, sorted({batch.stream for batch in batches}))
        began_ms = clock.monotonic_ms()
        await _append_all(engine, streams, batches, on_progress)
        seconds = (clock.monotonic_ms() - began_ms) / 1000
        wal = engine.statistics().wal
    ids = {name: stream.stream_id for name, stream in streams.items()}
    return LoadReport(ids, wal.appends, wal.syncs, seconds)


async def _open_streams(engine: StreamEngine, names: Sequence[StreamName]) -> dict[StreamName, Stream]:
    opened: dict[StreamName, Stream] = {}
    for name in names:
        stream_id = await engine.create_stream({"carrier": name.carrier, "origin": name.origin})
        opened[name] = await engine.open_stream(stream_id, 0)
    return opened


async def _append_all(
    engine: StreamEngine,
    streams: dict[StreamName, Stream],
    batches: Sequence[FlightBatch],
    on_progress: OnProgress,
) -> None:
    unanswered: deque[asyncio.Future[int]] = deque()
    for number, batch in enumerate(batches):
        if len(unanswered) >= UNANSWERED_MAX:
            await unanswered.popleft()
            on_progress(number, len(batches))
        unanswered.append(_append(engine, streams[batch.stream], batch))
    await asyncio.gather(*unanswered)
    on_progress(len(batches), len(batches))


def _append(engine: StreamEngine, stream: Stream, batch: FlightBatch) -> "asyncio.Future[int]":
    return engine.append(
        stream,
        batch.payload,
        len(batch.flights),
        smallest_timestamp_ms=batch.flights[0].departure_ms,
        largest_timestamp_ms=batch.flights[-1].departure_ms,
    )
