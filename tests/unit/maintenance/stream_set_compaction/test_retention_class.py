import pytest

from siltstone.maintenance.stream_set_compaction.retention_class import RetentionClass, retention_class
from siltstone.topic_configs.table import parse_topic_configs

K = RetentionClass
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


@pytest.mark.parametrize(
    ("retention_ms", "expected"),
    [
        (0, K.MINUTES),
        (HOUR_MS - 1, K.MINUTES),
        (HOUR_MS, K.HOURS),
        (DAY_MS - 1, K.HOURS),
        (DAY_MS, K.DAYS),
        (7 * DAY_MS, K.DAYS),
        (10 * DAY_MS, K.WEEKS),
        (100 * DAY_MS, K.MONTHS),
        (1_000 * DAY_MS, K.YEARS),
        (-1, K.FOR_EVER),
    ],
)
def test_by_order_of_magnitude(retention_ms: int, expected: RetentionClass) -> None:
    assert retention_class(parse_topic_configs({"retention.ms": str(retention_ms)})) is expected


def test_what_is_kept_as_long_as_it_fits_is_not_kept_for_ever() -> None:
    configs = {"retention.ms": "-1", "retention.bytes": "1000"}
    assert retention_class(parse_topic_configs(configs)) is K.BY_SIZE


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_compacted_whatever_the_retention(policy: str) -> None:
    configs = {"cleanup.policy": policy, "retention.ms": "1000"}
    assert retention_class(parse_topic_configs(configs)) is K.COMPACTED


def test_the_default_is_days() -> None:
    assert retention_class(parse_topic_configs({})) is K.DAYS
    assert [each.label for each in (K.FOR_EVER, K.DAYS)] == ["for ever", "days"]


def test_classes_and_their_names_stay_as_plans_show_them() -> None:
    assert {each.label: int(each) for each in K} == {
        "none": 0, "compacted": 1, "for ever": 2, "by size": 3, "minutes": 4, "hours": 5, "days": 6, "weeks": 7,
        "months": 8, "years": 9,
    }  # fmt: skip
