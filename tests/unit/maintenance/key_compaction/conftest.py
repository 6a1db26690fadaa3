from collections.abc import Iterator

import pytest

from support.maintenance.keyed_world import KeyedWorld, keyed_world


@pytest.fixture
def keyed() -> Iterator[KeyedWorld]:
    with keyed_world() as made:
        yield made
