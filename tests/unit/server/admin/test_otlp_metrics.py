"""Worked out by hand from the protocol's text, and read back with OpenTelemetry's own messages."""

from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.sdk.resources import Resource

from siltstone.foundation.histogram import HistogramCounts
from siltstone.server.admin.exposition import MetricFamily, MetricType, Series
from siltstone.server.admin.families import FAMILIES
from siltstone.server.admin.otlp_metrics import UNITS, otlp_metrics


def encoded(collected):
    made = otlp_metrics(collected, Resource({"service.name": "s"}), start_ms=1_000, now_ms=2_500)
    (resource,) = encode_metrics(made).resource_metrics
    return {metric.name: metric for metric in resource.scope_metrics[0].metrics}


def test_a_counter_is_a_cumulative_monotonic_sum_under_its_name_of_prometheus() -> None:
    family = MetricFamily("request_bytes", MetricType.COUNTER, "Bytes.", ("api",), "bytes")
    (metric,) = encoded({family: [Series(("Fetch",), 7.0), Series(("Produce",), 9)]}).values()
    assert (metric.name, metric.unit, metric.description) == ("siltstone_request_bytes_total", "By", "Bytes.")
    assert metric.sum.is_monotonic and metric.sum.aggregation_temporality == 2
    one, other = metric.sum.data_points
    assert (one.start_time_unix_nano, one.time_unix_nano) == (1_000_000_000, 2_500_000_000)
    assert (one.as_double, other.as_int) == (7.0, 9)
    assert [(each.key, each.value.string_value) for each in one.attributes] == [("api", "Fetch")]


def test_gauges_and_what_is_known_of_the_build_are_gauges() -> None:
    build = MetricFamily("build", MetricType.INFO, "Version.", ("version",))
    ready = MetricFamily("ready", MetricType.GAUGE, "Ready.")
    metrics = encoded({build: [Series(("1",), 1)], ready: [Series((), 0)]})
    assert set(metrics) == {"siltstone_build_info", "siltstone_ready"}
    assert metrics["siltstone_build_info"].gauge.data_points[0].as_int == 1
    assert metrics["siltstone_ready"].gauge.data_points[0].as_int == 0


def test_a_histogram_keeps_its_bounds_and_counts_uncumulated() -> None:
    family = MetricFamily("append_seconds", MetricType.HISTOGRAM, "Time.", (), "seconds")
    counts = HistogramCounts((0.5, 1.0), (3, 0, 2), 4.25)
    (metric,) = encoded({family: [Series((), counts)]}).values()
    assert (metric.name, metric.unit) == ("siltstone_append_seconds", "s")
    (point,) = metric.histogram.data_points
    assert list(point.explicit_bounds) == [0.5, 1.0] and list(point.bucket_counts) == [3, 0, 2]
    assert (point.count, point.sum) == (5, 4.25)
    assert not point.HasField("min") and not point.HasField("max")


def test_a_family_without_series_is_left_out_and_a_lone_surrogate_is_a_question_mark() -> None:
    family = MetricFamily("group_members", MetricType.GAUGE, "Members.", ("group",))
    empty = MetricFamily("ready", MetricType.GAUGE, "Ready.")
    (metric,) = encoded({empty: [], family: [Series(("g\ud800",), 1)]}).values()
    assert metric.gauge.data_points[0].attributes[0].value.string_value == "g?"


def test_every_unit_of_the_table_has_a_name_or_is_counted_things() -> None:
    units = {family.unit for family in FAMILIES.values() if family.unit}
    assert units - set(UNITS) == {"records"}
