"""Options that the commands share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from siltstone.maintenance.kinds.table import KIND_NAMES
from siltstone.maintenance.pipeline.scope import Scope
from siltstone.metadata.image import MetadataImage
from siltstone.model.errors import InvalidRequest
from siltstone.server.setting_values import Setting, parse_setting

F = TypeVar("F", bound=Callable[..., Any])


class TopicNotThere(InvalidRequest):
    """--topic names none."""


def kind_option(command: F) -> F:
    return click.option(
        "--kind", "kinds", multiple=True, type=click.Choice(KIND_NAMES), metavar="KIND",
        help=f"Only this kind; repeatable: {', '.join(KIND_NAMES)}.",
    )(command)  # fmt: skip


def topic_option(command: F) -> F:
    return click.option(
        "--topic", "topics", multiple=True, metavar="NAME", help="Only streams of this topic; repeatable."
    )(command)


def force_option(command: F) -> F:
    return click.option(
        "--force",
        is_flag=True,
        help="Also what would wait for an interval or a threshold, or is set aside.",
    )(command)


def scope_of(
    image: MetadataImage, topics: tuple[str, ...], *, force: bool = False, up_to: int | None = None
) -> Scope:
    """Raises TopicNotThere."""
    for name in topics:
        if name not in image.topic_ids:
            raise TopicNotThere(
                f"there is no topic {name} in this store; siltstone maintain explain shows them"
            )
    return Scope(topics=frozenset(topics) or None, is_forced=force, up_to=up_to)


def size_of(option: str, text: str | None) -> int | None:
    """Raises SettingRefused."""
    return _parsed(Setting("max_bytes", int, None), option, text)


def seconds_of(option: str, text: str | None) -> float | None:
    """A plain number is seconds. Raises SettingRefused."""
    if text is None or text.replace(".", "", 1).isdigit():
        return None if text is None else float(text)
    milliseconds = _parsed(Setting("max_ms", int, None), option, text)
    return None if milliseconds is None else milliseconds / 1000


def _parsed(setting: Setting, option: str, text: str | None) -> int | None:
    if text is None:
        return None
    value = parse_setting(setting, text, origin=f"command line, {option}", is_text=True)
    assert isinstance(value, int)
    return value
