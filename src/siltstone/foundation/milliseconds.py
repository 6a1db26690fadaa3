"""Times as whole milliseconds since 1970, which is how records have them."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def first_ms_at_or_after(time: datetime) -> int:
    """Returns the first millisecond since 1970 that is not before the time, which has a time zone: a record is at or
    after the one if and only if it is at or after the other. Floats would be off by one for some times."""
    return -((_EPOCH - time) // _MILLISECOND)
