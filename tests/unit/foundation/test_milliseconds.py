from datetime import UTC, datetime, timedelta, timezone

import pytest

from siltstone.foundation.milliseconds import first_ms_at_or_after

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
