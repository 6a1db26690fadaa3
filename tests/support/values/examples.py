"""How many random examples a property test tries."""

from hypothesis import settings

QUICK = "quick"
"""The profile of ``make unit``."""


def examples(count: int) -> int:
    """``count``, and a quarter of it in ``make unit``, where a number given to ``settings`` would win over that of the
    profile."""
    return max(5, count // 4) if settings.get_current_profile_name() == QUICK else count
