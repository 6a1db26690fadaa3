"""Draws the seed of a test that has another one each time: a failure prints it, and an environment variable replays
it."""

import os


def seed_of_this_run(variable: str, default: int | None = None) -> int:
    """Returns the seed of the environment variable; without it the default, or one drawn anew. It is printed in the
    words that replay it. No name of a variable begins with SILTSTONE_: a broker that the test starts would refuse it
    as an unknown setting."""
    given = os.environ.get(variable)
    drawn = int.from_bytes(os.urandom(4), "big") if default is None else default
    seed = drawn if given is None else int(given)
    print(f"{variable}={seed}")
    return seed
