"""Sizes, durations, counts, words: what reads, what is refused, and that what is printed reads back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.model.serving_limits import Price
from siltstone.offline.opening.values import (
    Setting,
    SettingRefused,
    format_setting,
    parse_setting,
    topic_config_text,
)
from siltstone.stream_engine.settings import WalSync

SIZE = Setting("engine.append_bytes_max", int, 1)
DURATION = Setting("engine.upload.cache_block_age_ms_max", int, 1)
COUNT = Setting("retry.attempts_max", int, 1)
WORD = Setting("engine.wal.sync", WalSync, WalSync.EVERY_GROUP)
FLAG = Setting("engine.flag", bool, False)
TEXT = Setting("metadata", str, None)


def parsed(setting: Setting, raw: object, *, is_text: bool = True) -> object:
    return parse_setting(setting, raw, origin="test", is_text=is_text)


@pytest.mark.parametrize(
    ("setting", "raw", "value"),
    [
        (SIZE, "16MiB", 16 * 2**20),
        (SIZE, "1.5 GiB", 3 * 2**29),
        (SIZE, "64 kB", 64_000),
        (SIZE, "100B", 100),
        (SIZE, "1048576", 1_048_576),
        (SIZE, 1_048_576, 1_048_576),
        (DURATION, "20min", 1_200_000),
        (DURATION, "500", 500),
        (DURATION, "1.5s", 1_500),
        (DURATION, "2 h", 7_200_000),
        (DURATION, "1d", 86_400_000),
        (COUNT, "7", 7),
        (WORD, "never", WalSync.NEVER),
        (FLAG, "true", True),
        (FLAG, "false", False),
        (TEXT, "sqlite:///x", "sqlite:///x"),
    ],
)
def test_what_reads(setting: Setting, raw: object, value: object) -> None:
    assert parsed(setting, raw) == value


def test_every_unit_has_its_size() -> None:
    sizes = [parsed(SIZE, f"1{unit}") for unit in ("B", "KiB", "MiB", "GiB", "TiB")]
    assert sizes == [1024**power for power in range(5)]
    assert [parsed(SIZE, f"1{unit}") for unit in ("kB", "MB", "GB", "TB")] == [1000**p for p in range(1, 5)]
    durations = [parsed(DURATION, f"1{unit}") for unit in ("ms", "s", "min", "h", "d")]
    assert durations == [1, 1000, 60 * 1000, 60 * 60 * 1000, 24 * 60 * 60 * 1000]


@pytest.mark.parametrize("unit", [SIZE, DURATION, COUNT])
def test_the_largest_number_is_that_of_63_bits(unit: Setting) -> None:
    assert parsed(unit, str(2**63 - 1)) == 2**63 - 1
    assert parsed(unit, "1") == 1
    for raw in ("0", str(2**63)):
        with pytest.raises(SettingRefused):
            parsed(unit, raw)


def test_some_numbers_may_be_zero_but_not_less() -> None:
    wait = Setting("kafka.group_initial_rebalance_delay_ms", int, 1)
    assert parsed(wait, "0") == 0
    with pytest.raises(SettingRefused, match="at least 0 ms"):
        parsed(wait, -1)


@pytest.mark.parametrize(
    ("setting", "raw"),
    [
        (SIZE, "16 mib"),
        (SIZE, "sixteen"),
        (SIZE, "-1"),
        (SIZE, "0"),
        (SIZE, 0),
        (SIZE, -5),
        (SIZE, True),
        (SIZE, 1.5),
        (SIZE, "1.5"),
        (SIZE, "20min"),
        (SIZE, str(2**63)),
        (SIZE, [1]),
        (SIZE, ""),
        (DURATION, "5 minutes"),
        (DURATION, "1MiB"),
        (COUNT, "7MiB"),
        (COUNT, "many"),
        (WORD, "sometimes"),
        (WORD, 3),
        (FLAG, "yes"),
        (TEXT, ""),
    ],
)
def test_what_cannot_be_is_refused_in_one_line_with_key_value_and_what_may_be(
    setting: Setting, raw: object
) -> None:
    with pytest.raises(SettingRefused) as refusal:
        parsed(setting, raw)
    text = str(refusal.value)
    assert setting.key in text
    assert str(raw).lower() in text.lower()
    assert setting.allowed in text
    assert "\n" not in text


@pytest.mark.parametrize(
    ("setting", "raw", "written"),
    [(FLAG, "maybe", '"maybe"'), (COUNT, True, "true"), (FLAG, 1, "1"), (WORD, [0.5], "[0.5]")],
)
def test_a_refused_value_is_written_as_in_a_file(setting: Setting, raw: object, written: str) -> None:
    with pytest.raises(SettingRefused) as refusal:
        parsed(setting, raw, is_text=False)
    assert f"{setting.key}: {written} is not allowed; use " in str(refusal.value)


def test_in_a_file_a_count_is_a_number_and_a_flag_is_a_flag() -> None:
    assert parsed(COUNT, 7, is_text=False) == 7
    assert parsed(SIZE, "16MiB", is_text=False) == 16 * 2**20
    assert parsed(FLAG, False, is_text=False) is False
    for setting, raw in [(COUNT, "7"), (FLAG, "true"), (FLAG, 1), (TEXT, 5)]:
        with pytest.raises(SettingRefused):
            parsed(setting, raw, is_text=False)


@pytest.mark.parametrize(
    ("name", "minimum"), [("node_id", 0), ("grace_period_ms", 0), ("segment_bytes", 1), ("attempts_max", 1)]
)
def test_only_what_may_be_nothing_may_be_zero(name: str, minimum: int) -> None:
    assert Setting(f"x.{name}", int, 1).minimum == minimum


@given(st.sampled_from([SIZE, DURATION, COUNT]), st.integers(min_value=1, max_value=2**63 - 1))
def test_what_is_printed_reads_back(setting: Setting, value: int) -> None:
    assert parsed(setting, format_setting(setting, value)) == value


@pytest.mark.parametrize(
    ("setting", "value", "text"),
    [(SIZE, 512 * 2**20, "512 MiB"), (SIZE, 1_000, "1000 B"), (DURATION, 90_000, "90 s"), (COUNT, 2**20, "1048576"),
     (WORD, WalSync.EVERY_GROUP, "every-group"), (FLAG, True, "true"), (DURATION, 0, "0")],
)  # fmt: skip
def test_how_values_are_printed(setting: Setting, value: object, text: str) -> None:
    assert format_setting(setting, value) == text


SHARE = Setting("maintenance.gc.minor_threshold", float, 0.2)


@pytest.mark.parametrize(("raw", "value"), [("0.25", 0.25), ("1", 1.0), (0.5, 0.5), (1, 1.0)])
def test_a_share_reads(raw: object, value: float) -> None:
    assert parsed(SHARE, raw) == value
    assert parsed(SHARE, format_setting(SHARE, value)) == value


@pytest.mark.parametrize("raw", ["0", "-0.1", "1.01", "nan", "much", True, None, [0.5]])
def test_what_is_no_share_is_refused(raw: object) -> None:
    with pytest.raises(SettingRefused, match="a share above 0 and up to 1"):
        parsed(SHARE, raw)


@pytest.mark.parametrize(
    ("name", "text", "written"),
    [
        ("retention.ms", "1d", "86400000"),
        ("retention.ms", "-1", "-1"),
        ("segment.bytes", "16MiB", "16777216"),
        ("segment.bytes", "5", "5"),
        ("segment.bytes", "much", "much"),
        ("cleanup.policy", "compact", "compact"),
    ],
)
def test_a_topic_configuration_may_be_written_with_its_unit(name: str, text: str, written: str) -> None:
    """What is no quantity is left to the broker to refuse."""
    assert topic_config_text(name, text) == written


PRICE = Setting("maintenance.price_per_request", Price, Price(0.4))


@pytest.mark.parametrize(("raw", "value"), [("0", 0.0), ("0.4", 0.4), (5, 5.0), ("17.5", 17.5)])
def test_a_price_reads(raw: object, value: float) -> None:
    read = parsed(PRICE, raw)
    assert read == value and isinstance(read, Price)
    assert parsed(PRICE, format_setting(PRICE, read)) == value


@pytest.mark.parametrize("raw", ["-0.01", "inf", "nan", "cheap", True, None])
def test_what_is_no_price_is_refused(raw: object) -> None:
    with pytest.raises(SettingRefused, match=r"use a price of 0 or more, such as 0\.4"):
        parsed(PRICE, raw)
