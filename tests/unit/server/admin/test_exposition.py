"""Both formats, read by Prometheus' own library."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.foundation.histogram import Histogram, HistogramCounts
from siltstone.server.admin.exposition import (
    MetricFamily,
    MetricType,
    Series,
    TextFormat,
    label_text,
    lines_of,
)
from support.metrics.scraping import parsed

COUNTER = MetricFamily("things", MetricType.COUNTER, 'Things "of" a \\ kind.', ("kind",))
GAUGE = MetricFamily("size_bytes", MetricType.GAUGE, "The size.", (), "bytes")
SECONDS = MetricFamily("wait_seconds", MetricType.HISTOGRAM, "The wait.", ("who",), "seconds")
INFO = MetricFamily("build", MetricType.INFO, "The version.", ("version",))


def text_of(text_format: TextFormat, collected) -> str:
    return "".join(lines_of(text_format, collected))


def observed(*values: float) -> HistogramCounts:
    histogram = Histogram((0.5, 1.0))
    for value in values:
        histogram.observe(value)
    return histogram.counts()


COLLECTED = {
    COUNTER: [Series(("a",), 5), Series(("b",), 0.25)],
    GAUGE: [Series((), 1_000)],
    SECONDS: [Series(("x",), observed(0.1, 0.5, 0.75, 7.0))],
    INFO: [Series(("1.0",), 1)],
}


@pytest.mark.parametrize("text_format", TextFormat)
def test_what_is_written_is_what_prometheus_reads(text_format: TextFormat):
    assert parsed(text_of(text_format, COLLECTED), text_format) == {
        ("siltstone_things_total", (("kind", "a"),)): 5,
        ("siltstone_things_total", (("kind", "b"),)): 0.25,
        ("siltstone_size_bytes", ()): 1_000,
        ("siltstone_wait_seconds_bucket", (("le", "0.5"), ("who", "x"))): 2,
        ("siltstone_wait_seconds_bucket", (("le", "1.0"), ("who", "x"))): 3,
        ("siltstone_wait_seconds_bucket", (("le", "+Inf"), ("who", "x"))): 4,
        ("siltstone_wait_seconds_count", (("who", "x"),)): 4,
        ("siltstone_wait_seconds_sum", (("who", "x"),)): 8.35,
        ("siltstone_build_info", (("version", "1.0"),)): 1,
    }


def test_openmetrics_has_units_and_an_end_and_names_counters_without_their_suffix():
    lines = text_of(TextFormat.OPENMETRICS, COLLECTED).splitlines()
    assert "# TYPE siltstone_things counter" in lines
    assert "# UNIT siltstone_size_bytes bytes" in lines
    assert "# TYPE siltstone_build info" in lines
    assert lines[-1] == "# EOF"
    plain = text_of(TextFormat.PROMETHEUS, COLLECTED).splitlines()
    assert "# TYPE siltstone_things_total counter" in plain
    assert "# TYPE siltstone_build_info gauge" in plain
    assert not [line for line in plain if line.startswith(("# UNIT", "# EOF"))]


def test_a_family_without_series_is_left_out():
    assert text_of(TextFormat.PROMETHEUS, {COUNTER: []}) == ""


@pytest.mark.parametrize("text_format", TextFormat)
@given(label=st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_label_comes_back_as_it_was(text_format: TextFormat, label: str):
    text = text_of(text_format, {COUNTER: [Series((label,), 1)]})
    assert list(parsed(text, text_format)) == [("siltstone_things_total", (("kind", label),))]


def test_a_label_that_cannot_be_encoded_is_replaced():
    text = text_of(TextFormat.OPENMETRICS, {COUNTER: [Series(("a\ud800",), 1)]})
    assert list(parsed(text.encode().decode(), TextFormat.OPENMETRICS)) == [
        ("siltstone_things_total", (("kind", "a?"),))
    ]


def test_a_long_label_is_cut_and_stays_another_than_its_like():
    one, other = label_text("g" * 30_000 + "1"), label_text("g" * 30_000 + "2")
    assert len(one) <= 200 and one != other and one.startswith("ggg")
    assert label_text("short") == "short"


@pytest.mark.parametrize("text_format", TextFormat)
def test_a_series_counts_as_many_lines_as_a_monitoring_system_stores(text_format: TextFormat):
    """The limits of series are of those."""
    for family, series in (
        (SECONDS, Series(("a",), observed(0.1, 2.0))), (GAUGE, Series((), 7)), (COUNTER, Series(("b",), 1)),
    ):  # fmt: skip
        lines = [line for line in lines_of(text_format, {family: [series]}) if not line.startswith("#")]
        assert len(lines) == series.line_count
