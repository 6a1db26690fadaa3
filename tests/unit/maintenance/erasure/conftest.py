from collections.abc import Iterator

import pytest

from support.maintenance.erased_world import ErasedWorld, erased_world


@pytest.fixture
def erased() -> Iterator[ErasedWorld]:
    with erased_world() as made:
        yield made
