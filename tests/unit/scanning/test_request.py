"""The words of a lease, and times as milliseconds."""

from datetime import UTC, datetime

import pytest

from siltstone.scanning.failures import ScanRefused
from siltstone.scanning.request import (
    EARLIEST,
    LATEST,
    Bounds,
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
