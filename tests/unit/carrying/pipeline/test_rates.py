"""The rate and the grade of a run."""

import pytest

from siltstone.carrying.pipeline.kind import Plan
from siltstone.carrying.pipeline.rates import rate_of, spread_ms
from siltstone.model.errors import InvalidRequest
from siltstone.model.limits import GIB, MIB, MINUTE_MS, SPREAD_BYTES_PER_SECOND_MIN
from siltstone.object_store.bandwidth.grades import BandwidthSettings, Grade
from siltstone.offline.pressure import Measured, Space
from siltstone.offline.settings import CopyRates, MaintenanceSettings, Rates
from siltstone.offline.tasks.pacing import NO_RATE, RunRate

EMPTY = Measured((Space("the disk", 10, 100),))
FULL = Measured((Space("the disk", 92, 100),))
NINETEEN = 19 * MINUTE_MS
NONE = CopyRates()


def rate(
    size_bytes: int = 10 * GIB,
    rates: CopyRates = NONE,
    spread: int = NINETEEN,
    space: Measured = EMPTY,
    **plan: object,
) -> RunRate:
    return rate_of(Plan(kind="sso-compaction", **plan), size_bytes, rates, spread, space)  # type: ignore[arg-type]


def test_a_scheduled_compaction_is_spread_over_all_but_a_minute_of_its_interval() -> None:
    assert spread_ms(20 * MINUTE_MS) == NINETEEN
    assert spread_ms(MINUTE_MS) == spread_ms(1) == MINUTE_MS, "a minute at least"
    found = rate()
    assert (found.spread_ms, found.grade) == (NINETEEN, Grade.MAINTENANCE)
    assert found.bytes_per_second * NINETEEN / 1000 == pytest.approx(10 * GIB, rel=1e-6)
    assert found.words == "at 9.0 MiB/s, spread over 19 min 00 s"


def test_a_small_one_is_not_spread_thinner_than_a_mebibyte_a_second() -> None:
    found = rate(10 * MIB)
    assert (found.bytes_per_second, found.spread_ms) == (SPREAD_BYTES_PER_SECOND_MIN, 0)


def test_what_is_not_scheduled_is_not_spread() -> None:
    assert rate(spread=0) == NO_RATE
    assert rate(spread=0).words == ""


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"urgency": "2 objects must be split"}, "urgent: 2 objects must be split"),
        ({"space": FULL}, "urgent: the disk is 92% full"),
        ({"space": FULL, "urgency": "2 objects must be split"}, "urgent: the disk is 92% full"),
    ],
)
def test_forced_splits_and_a_disk_under_pressure_are_urgent_and_not_spread(changes: dict, words: str) -> None:
    found = rate(**changes)
    assert (found.bytes_per_second, found.grade, found.words) == (0, Grade.URGENT, words)


def test_the_lowest_of_the_rates_that_are_set_holds() -> None:
    rates = CopyRates(of_all=5 * MIB, of_kind={"sso-compaction": 3 * MIB, "so-compaction": 1})
    assert rate(rates=rates).bytes_per_second == 3 * MIB
    assert rate(rates=rates).spread_ms == 0, "it takes longer than its interval"
    assert rate(rates=rates, bytes_per_second=2 * MIB).bytes_per_second == 2 * MIB
    assert rate(rates=CopyRates(of_all=100 * MIB)).spread_ms == NINETEEN
    assert rate(rates=rates, space=FULL).bytes_per_second == 3 * MIB, (
        "urgent work keeps to what people have set"
    )
    assert CopyRates(of_all=7).of("relocation") == 7 and CopyRates().of("relocation") == 0


def test_the_settings_of_a_kind_are_found_by_its_name() -> None:
    settings = MaintenanceSettings(
        copy_bytes_per_second=9, rate=Rates(key_compaction_bytes_per_second=8, relocation_bytes_per_second=10)
    )
    rates = settings.copy_rates
    assert [rates.of(kind) for kind in ("key-compaction", "relocation", "so-compaction")] == [8, 9, 9]
    with pytest.raises(InvalidRequest, match="table_export_bytes_per_second is -1"):
        Rates(table_export_bytes_per_second=-1)


def test_the_pace_of_a_run_has_its_rate_and_its_grade() -> None:
    limits = BandwidthSettings(1, 2)
    pace = RunRate(bytes_per_second=7, urgency="full").pace("so-compaction", limits)
    assert (pace.bytes_per_second, pace.grade, pace.counts_copies, pace.limits) == (
        7,
        Grade.URGENT,
        False,
        limits,
    )
    assert NO_RATE.pace("major-gc", limits).counts_copies, "its rate is about copies inside the store, too"
