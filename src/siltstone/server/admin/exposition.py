"""The two text formats of metrics: Prometheus' own, version 0.0.4, and OpenMetrics 1.0. Pure.

A *family* is a metric with its type, unit, labels and help; a *series* is one combination of its labels, with a value
or with the counts of a histogram. The formats differ in the names of counters in the comments, in ``# UNIT``, in the
type of ``info``, and in the ``# EOF`` of OpenMetrics.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import accumulate
from zlib import crc32

import msgspec

from siltstone.foundation.histogram import HistogramCounts

PREFIX = "siltstone_"

LABEL_CHARACTERS_MAX = 200
"""The id of a group may have 32,767 bytes."""


class MetricType(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    INFO = "info"


class TextFormat(StrEnum):
    """The values are the content types of the answers."""

    PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
    OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class MetricFamily(msgspec.Struct, frozen=True):
    """``name`` is without the prefix and without the ``_total`` of a counter, and ends with the unit if there is one.
    ``labels`` are the names of the labels in their order."""

    name: str
    type: MetricType
    help: str
    labels: tuple[str, ...] = ()
    unit: str = ""

    @property
    def sample_name(self) -> str:
        """The name by which queries name the family: that of its samples, but for the suffixes of histograms."""
        suffix = {MetricType.COUNTER: "_total", MetricType.INFO: "_info"}.get(self.type, "")
        return f"{PREFIX}{self.name}{suffix}"


Value = float | HistogramCounts


class Series(msgspec.Struct, frozen=True):
    """``labels`` has a value for each label of the family, in their order."""

    labels: tuple[str, ...]
    value: Value

    @property
    def line_count(self) -> int:
        """How many series a monitoring system makes of this one."""
        return len(self.value.counts) + 2 if isinstance(self.value, HistogramCounts) else 1


def lines_of(text_format: TextFormat, collected: Mapping[MetricFamily, Sequence[Series]]) -> Iterator[str]:
    """Yields the lines of a scrape, each with its line feed. Families without series are left out."""
    for family, rows in collected.items():
        if rows:
            yield from _comments(text_format, family)
            for series in rows:
                yield from _samples(family, series)
    if text_format is TextFormat.OPENMETRICS:
        yield "# EOF\n"


def _comments(text_format: TextFormat, family: MetricFamily) -> Iterator[str]:
    if text_format is TextFormat.OPENMETRICS:
        name, kind = PREFIX + family.name, family.type.value
        yield f"# TYPE {name} {kind}\n"
        if family.unit:
            yield f"# UNIT {name} {family.unit}\n"
        yield f"# HELP {name} {_escaped(family.help)}\n"
        return
    name = family.sample_name
    yield f"# HELP {name} {family.help}\n"
    yield f"# TYPE {name} {'gauge' if family.type is MetricType.INFO else family.type.value}\n"


def _samples(family: MetricFamily, series: Series) -> Iterator[str]:
    labels = ",".join(
        f'{name}="{_escaped(value)}"' for name, value in zip(family.labels, series.labels, strict=True)
    )
    value = series.value
    if not isinstance(value, HistogramCounts):
        yield f"{family.sample_name}{f'{{{labels}}}' if labels else ''} {written(value)}\n"
        return
    name, before = PREFIX + family.name, f"{labels}," if labels else ""
    bounds = [*map(written, map(float, value.bounds)), "+Inf"]
    *_, count = cumulated = list(accumulate(value.counts))
    for bound, below in zip(bounds, cumulated, strict=True):
        yield f'{name}_bucket{{{before}le="{bound}"}} {below}\n'
    braced = f"{{{labels}}}" if labels else ""
    yield f"{name}_count{braced} {count}\n"
    yield f"{name}_sum{braced} {written(value.total)}\n"


def label_text(text: str) -> str:
    """Returns a text that a client has chosen, as the value of a label: cut when it is long, and then with a checksum,
    so that two texts stay two."""
    if len(text) <= LABEL_CHARACTERS_MAX:
        return text
    return f"{text[: LABEL_CHARACTERS_MAX - 10]}~{crc32(text.encode('utf-8', 'replace')):08x}"


def written(value: float) -> str:
    return repr(value)


def _escaped(text: str) -> str:
    """Escapes a text as both formats want it in label values, and OpenMetrics in help texts. Lone surrogates, which a
    client may send in the name of a group, cannot be encoded and become question marks."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return text
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
