"""Invented flights, in the form of the real ones."""

from siltstone.cli.demo.flights import Flight, flights_of_lines

HEADER = (
    b"year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,"
    b"origin,dest,air_time,distance,hour,minute,time_hour"
)


def flight_line(
    day: int, hour: int, minute: int, carrier: str = "UA", origin: str = "EWR", number: int = 1
) -> bytes:
    time = f"2013-01-{day:02d}T{hour:02d}:00:00Z"
    return (
        f"2013,1,{day},517,{hour}{minute:02d},2,830,819,11,{carrier},{number},N1,{origin},IAH,227,1400,"
        f"{hour},{minute},{time}"
    ).encode()


def flights(*lines: bytes) -> list[Flight]:
    return list(flights_of_lines(HEADER, list(lines)))
