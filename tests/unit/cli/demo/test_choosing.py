from siltstone.cli.demo.choosing import busiest_and_quiet
from siltstone.cli.demo.flights import StreamName
from support.flights import flight_line, flights


def test_the_quiet_one_is_the_one_that_goes_on() -> None:
    lines = [flight_line(day, hour, 0, "UA") for day in range(1, 9) for hour in range(5)]
    lines += [flight_line(day, 9, 0, "HA", "JFK") for day in range(1, 9)]
    lines += [flight_line(1, 9, 0, "OO", "LGA")]
    assert busiest_and_quiet(flights(*lines)) == (StreamName("UA", "EWR"), StreamName("HA", "JFK"))


def test_with_one_stream_it_is_both() -> None:
    name = StreamName("UA", "EWR")
    assert busiest_and_quiet(flights(flight_line(1, 1, 1))) == (name, name)
