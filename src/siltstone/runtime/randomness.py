"""Chance comes in through the front door: whoever needs it takes a ``random.Random``."""

import random
from random import Random

__all__ = ["Random", "random_token", "seeded_randomness", "system_randomness"]


def system_randomness() -> Random:
    """Seeded by the operating system."""
    return random.SystemRandom()


def seeded_randomness(seed: int) -> Random:
    return random.Random(seed)


def random_token(rng: Random) -> str:
    """128 bits as 32 hex digits: an identity nobody else has."""
    return f"{rng.getrandbits(128):032x}"
