"""Invented flights, in the form of the real ones, and what a consumer makes of them."""

from collections.abc import Iterable

from siltstone.cli.demo.flights import Flight, flights_of_lines
from siltstone.cli.demo.kafka_client import Consumed

HEADER = (
    b"year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,"
    b"origin,dest,air_time,distance,hour,minute,time_hour"
)


def flight_line(
    day: int, hour: int, minute: int, tail_number: str = "N1", delay: str = "2", month: int = 1
) -> bytes:
    time = f"2013-{month:02d}-{day:02d}T{hour:02d}:00:00Z"
    return (
        f"2013,{month},{day},517,{hour}{minute:02d},{delay},830,819,11,UA,1,{tail_number},EWR,IAH,227,1400,"
        f"{hour},{minute},{time}"
    ).encode()


def flights(*lines: bytes) -> list[Flight]:
    return list(flights_of_lines(HEADER, list(lines)))


def consumed(data: Iterable[Flight]) -> list[Consumed]:
    """Returns flights as from topics with one partition each."""
    records: list[Consumed] = []
    offsets: dict[str, int] = {}
    for flight in data:
        for topic in flight.topics:
            offset = offsets[topic] = offsets.get(topic, -1) + 1
            records.append(
                Consumed(topic, 0, offset, flight.departure_ms, flight.tail_number, flight.line),
            )
    return records
