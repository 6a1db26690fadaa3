"""The number of random examples that a property test tries."""

from hypothesis import settings

SHARES = {"quick": 4, "siltstone": 3, "thorough": 1}
"""Profile → of how many examples one is tried: by ``make unit``, by ``make test``, at night."""


def examples(count: int) -> int:
    """``count`` at night, a third of it in ``make test`` and a quarter in ``make unit``: a number given to ``settings``
    would win over that of the profile."""
    return max(5, count // SHARES[settings.get_current_profile_name()])
