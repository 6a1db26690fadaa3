"""Draws views by the templates. Everything that a template writes is escaped, unless a chart made it."""

from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from siltstone.console import charts
from siltstone.console.watchers import WATCHER
from siltstone.foundation.quantity_words import (
    count_words,
    counted,
    duration_words,
    seconds_words,
    size_words,
    time_words,
)
from siltstone.model.version import VERSION


@cache
def templates() -> Environment:
    found = Environment(
        loader=PackageLoader("siltstone.console", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters.update(
        count=count_words, size=size_words, seconds=seconds_words, time=time_words, ago=ago_words,
        duration=duration_words, percent=lambda share: f"{share:.0%}", part=lambda text: quote(str(text), safe=""),
    )  # fmt: skip
    found.globals.update(
        counted=counted, version=VERSION, watcher_header=WATCHER,
        bar=lambda share, label: Markup(charts.bar(share, label)),  # noqa: S704  the chart escapes its label
    )  # fmt: skip
    return found


def rendered(template: str, values: Mapping[str, Any]) -> str:
    return templates().get_template(template).render(values)


def ago_words(at_ms: int, now_ms: int) -> str:
    """Returns how long ago a time was, in its largest unit; ``in …`` for a time to come, ``never`` for no time."""
    if at_ms <= 0:
        return "never"
    passed_ms = now_ms - at_ms
    for unit_ms in (86_400_000, 3_600_000, 60_000, 1_000):
        if abs(passed_ms) >= unit_ms:
            words = duration_words(abs(passed_ms) // unit_ms * unit_ms)
            return f"{words} ago" if passed_ms > 0 else f"in {words}"
    return "now"
