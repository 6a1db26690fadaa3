"""Random numbers. Code that needs them takes a ``Random`` as an argument, so that a test can repeat them from a seed.

The linter refuses ``random`` and ``uuid4`` elsewhere.
"""

import random
from random import Random

__all__ = ["Random", "random_token", "seeded_randomness", "system_randomness"]


def system_randomness() -> Random:
    """Random numbers of the operating system, which cannot be repeated."""
    return random.SystemRandom()


def seeded_randomness(seed: int) -> Random:
    return random.Random(seed)


def random_token(rng: Random) -> str:
    """128 random bits as 32 hex digits: an identifier that is unique without coordination."""
    return f"{rng.getrandbits(128):032x}"
