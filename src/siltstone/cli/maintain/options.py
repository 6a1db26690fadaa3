"""Options that several commands of ``siltstone maintain`` share, and the values they parse to."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from siltstone.carrying.pipeline.kind import Scope, topics_named
from siltstone.metadata.image import MetadataImage
from siltstone.model.errors import InvalidRequest
from siltstone.offline.kind_rows import KIND_NAMES
from siltstone.offline.opening.values import Unit, written_quantity

F = TypeVar("F", bound=Callable[..., Any])


class LimitRefused(InvalidRequest):
    """The value of --max-bytes or --max-seconds is not a size or not a time above 0."""


def kind_option(command: F) -> F:
    return click.option(
        "--kind", "kinds", multiple=True, type=click.Choice(KIND_NAMES), metavar="KIND",
        help=f"Limit to this kind; repeatable: {', '.join(KIND_NAMES)}.",
    )(command)  # fmt: skip


def topic_option(command: F) -> F:
    return click.option(
        "--topic", "topics", multiple=True, metavar="NAME", help="Limit to this topic; repeatable."
    )(command)


def force_option(command: F) -> F:
    return click.option(
        "--force",
        is_flag=True,
        help="Ignore intervals and thresholds, and retry units that are set aside.",
    )(command)


def scope_of(
    image: MetadataImage, topics: tuple[str, ...], *, force: bool = False, up_to: int | None = None
) -> Scope:
    """Returns the topics to look at, None for the whole store, and how. Raises TopicNotThere."""
    return Scope(topics=topics_named(image, topics) or None, is_forced=force, up_to=up_to)


def size_of(option: str, text: str | None) -> int | None:
    """Parses ``64MiB`` into bytes; None if the option was not given. Raises LimitRefused."""
    if text is None:
        return None
    size_bytes = written_quantity(Unit.BYTES, text)
    if not size_bytes:
        raise LimitRefused(f"{option} {text}: write a size above 0, such as 64MiB or 10GiB")
    return size_bytes


def seconds_of(option: str, text: str | None) -> float | None:
    """Parses ``600`` (seconds) or ``10min`` into seconds; None if the option was not given. Raises LimitRefused."""
    if text is None:
        return None
    if text.replace(".", "", 1).isdecimal():
        seconds = float(text)
    else:
        seconds = (written_quantity(Unit.MILLISECONDS, text) or 0) / 1000
    if seconds <= 0:
        raise LimitRefused(f"{option} {text}: write a time above 0, such as 600 (seconds), 10min or 2h")
    return seconds
