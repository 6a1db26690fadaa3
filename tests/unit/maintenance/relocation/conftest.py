from collections.abc import Iterator

import pytest

from support.maintenance.drained_world import DrainedWorld, drained_world


@pytest.fixture
def world() -> Iterator[DrainedWorld]:
    with drained_world() as made:
        yield made
