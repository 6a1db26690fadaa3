"""When a load is in its band."""

import pytest

from siltstone.cluster.balancing.goals import GOALS, Load, is_in_band, mean_of
from siltstone.model.limits import MIB

BYTES_IN, BYTES_OUT, REQUESTS, PARTITIONS = GOALS


@pytest.mark.parametrize(
    ("goal", "load", "mean", "is_in"),
    [
        (BYTES_IN, Load(bytes_in=12 * MIB), 10 * MIB, True),
        (BYTES_IN, Load(bytes_in=12 * MIB + 1), 10 * MIB, False),
        (BYTES_IN, Load(bytes_in=8 * MIB), 10 * MIB, True),
        (BYTES_IN, Load(bytes_in=8 * MIB - 1), 10 * MIB, False),
        (BYTES_OUT, Load(bytes_out=3 * MIB), MIB - 1, True),
        (BYTES_OUT, Load(bytes_out=3 * MIB), MIB, False),
        (REQUESTS, Load(requests=300), 99.9, True),
        (REQUESTS, Load(requests=300), 100, False),
        (PARTITIONS, Load(partitions=3), 2.1, True),
        (PARTITIONS, Load(partitions=4), 2.1, False),
        (PARTITIONS, Load(partitions=0), 0.5, True),
    ],
)
def test_the_band_is_a_fifth_of_the_mean_above_a_floor(goal, load: Load, mean: float, is_in: bool) -> None:
    assert is_in_band(goal, load, mean) is is_in


def test_the_mean_is_of_all_brokers() -> None:
    assert mean_of(BYTES_IN, {0: Load(bytes_in=3.0), 1: Load(), 2: Load()}) == 1.0


def test_loads_add_up() -> None:
    assert Load(1, 2, 3, 4).plus(Load(10, 20, 30, 40)).minus(Load(1, 1, 1, 1)) == Load(10, 21, 32, 43)
