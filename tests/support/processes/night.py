"""Draws by the date which of many cases a night plays. ``NIGHT=all`` plays all of them, and ``NIGHT=2026-11-27`` those
of that night again."""

import os
import random
from collections.abc import Sequence
from datetime import date
from typing import TypeVar

Case = TypeVar("Case")

VARIABLE = "NIGHT"
ALL = "all"


def name_this_night() -> None:
    """Decides the date before any worker of pytest-xdist starts: at midnight two workers would draw different cases,
    and no test would run.

    Raises ``ValueError`` for what is neither ``all`` nor a date, such as ``ALL``: it would draw as a date does.
    """
    night = os.environ.setdefault(VARIABLE, date.today().isoformat())
    if night == ALL:
        return
    try:
        date.fromisoformat(night)
    except ValueError:
        raise ValueError(f"{VARIABLE}={night}: give {ALL}, or a date such as 2026-11-27") from None


def drawn_tonight(cases: Sequence[Case], count: int) -> list[Case]:
    """Returns ``count`` of the cases, other ones each night, or all of them."""
    night = os.environ[VARIABLE]
    return [*cases] if night == ALL else random.Random(f"{night} {cases}").sample(cases, count)
