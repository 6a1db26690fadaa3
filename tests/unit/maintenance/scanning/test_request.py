"""The words of a lease, and times as milliseconds."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from siltstone.maintenance.scanning.failures import ScanRefused
from siltstone.maintenance.scanning.request import (
    EARLIEST,
    LATEST,
    Bounds,
    first_ms_at_or_after,
    lease_ms_of,
)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "lease_ms"),
    [
        ("0", 0), ("0h", 0), ("1ms", 1), ("45s", 45_000), ("90min", 5_400_000), (" 6h ", 21_600_000),
        ("1d", 86_400_000), ("24h", 86_400_000), ("86400000ms", 86_400_000),
    ],
)  # fmt: skip
def test_a_lease_has_a_unit_and_is_a_day_at_most(text: str, lease_ms: int) -> None:
    assert lease_ms_of(text) == lease_ms


@pytest.mark.parametrize(
    "text", ["", "1", "3600", "-1h", "1.5h", "1 h", "h", "1w", "25h", "86400001ms", "1h1", "9" * 13 + "ms"]
)
def test_another_lease_is_refused_with_what_may_be_written(text: str) -> None:
    with pytest.raises(ScanRefused, match=r"the lease of a scan cannot be .*: write 0 to 24h"):
        lease_ms_of(text)


def test_a_bound_by_name_wins_over_that_of_all() -> None:
    bounds = Bounds(EARLIEST, {("t", 1): LATEST})
    assert (bounds.of(("t", 1)), bounds.of(("t", 0))) == (LATEST, EARLIEST)
    assert Bounds(None, {("t", 1): LATEST}).of(("t", 0)) is None


@pytest.mark.parametrize("ms", [0, 1, 548_544_073_208, 1_085_082_548_922, 2_150_284_824_720, -1])
def test_a_whole_millisecond_is_itself(ms: int) -> None:
    """With floats, some of these would be one less: a scan until that time would leave out a millisecond."""
    time = EPOCH + timedelta(milliseconds=ms)
    assert first_ms_at_or_after(time) == ms
    assert first_ms_at_or_after(time.astimezone(timezone(timedelta(hours=-5)))) == ms


@pytest.mark.parametrize("micros", [1, 500, 999])
@pytest.mark.parametrize("ms", [-2, 0, 1_700_000_000_000])
def test_a_time_within_a_millisecond_is_the_next_one(ms: int, micros: int) -> None:
    """A record at the millisecond before is before the time, and one at the next is not."""
    assert first_ms_at_or_after(EPOCH + timedelta(milliseconds=ms, microseconds=micros)) == ms + 1
