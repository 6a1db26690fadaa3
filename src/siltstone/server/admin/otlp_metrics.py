"""Turns a scrape into metrics of OpenTelemetry, under the names that Prometheus shows. Pure.

A counter keeps its ``_total`` and every name its unit, so a query is right wherever the metrics went: Prometheus'
receiver for OTLP adds a suffix only where it is missing. A family of the type info is a gauge of 1, as in Prometheus.
Counts are cumulative since the process began to export. The extra ``otlp`` brings the classes.
"""

from collections.abc import Iterator, Mapping, Sequence

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Histogram as HistogramMetric
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from siltstone.foundation.histogram import HistogramCounts
from siltstone.model.version import VERSION
from siltstone.server.admin.exposition import PREFIX, MetricFamily, MetricType, Series

SCOPE = "siltstone"
UNITS = {"seconds": "s", "bytes": "By", "ratio": "1"}
"""The unit of a family → its name in UCUM, which OpenTelemetry wants. Others are things that are counted."""

NS_PER_MS = 1_000_000


def otlp_metrics(
    collected: Mapping[MetricFamily, Sequence[Series]], resource: Resource, *, start_ms: float, now_ms: float
) -> MetricsData:
    """Families without series are left out."""
    times = (int(start_ms * NS_PER_MS), int(now_ms * NS_PER_MS))
    metrics = [_metric(family, rows, times) for family, rows in collected.items() if rows]
    scope = ScopeMetrics(scope=InstrumentationScope(SCOPE, VERSION), metrics=metrics, schema_url="")
    return MetricsData([ResourceMetrics(resource=resource, scope_metrics=[scope], schema_url="")])


def _metric(family: MetricFamily, rows: Sequence[Series], times: tuple[int, int]) -> Metric:
    unit = UNITS.get(family.unit, f"{{{family.unit}}}" if family.unit else "")
    name = PREFIX + family.name if family.type is MetricType.HISTOGRAM else family.sample_name
    return Metric(name=name, description=family.help, unit=unit, data=_data(family, rows, times))


def _data(
    family: MetricFamily, rows: Sequence[Series], times: tuple[int, int]
) -> Sum | Gauge | HistogramMetric:
    cumulative = AggregationTemporality.CUMULATIVE
    if family.type is MetricType.HISTOGRAM:
        return HistogramMetric(list(_histograms(family, rows, times)), cumulative)
    points = list(_numbers(family, rows, times))
    return Sum(points, cumulative, is_monotonic=True) if family.type is MetricType.COUNTER else Gauge(points)


def _numbers(
    family: MetricFamily, rows: Sequence[Series], times: tuple[int, int]
) -> Iterator[NumberDataPoint]:
    for series in rows:
        assert not isinstance(series.value, HistogramCounts)
        yield NumberDataPoint(_attributes(family, series), *times, series.value)


def _histograms(
    family: MetricFamily, rows: Sequence[Series], times: tuple[int, int]
) -> Iterator[HistogramDataPoint]:
    for series in rows:
        counts = series.value
        assert isinstance(counts, HistogramCounts)
        # The protocol leaves min and max out, which nobody has counted.
        yield HistogramDataPoint(
            attributes=_attributes(family, series), start_time_unix_nano=times[0], time_unix_nano=times[1],
            count=counts.count, sum=counts.total, bucket_counts=counts.counts, explicit_bounds=counts.bounds,
            min=None,  # type: ignore[arg-type]
            max=None,  # type: ignore[arg-type]
        )  # fmt: skip


def _attributes(family: MetricFamily, series: Series) -> dict[str, str]:
    """Lone surrogates, which a client may send in the name of a group, cannot be encoded: they are question marks, as
    in a scrape."""
    return {
        name: value.encode("utf-8", "replace").decode("utf-8")
        for name, value in zip(family.labels, series.labels, strict=True)
    }
