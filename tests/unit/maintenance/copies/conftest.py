from collections.abc import Iterator

import pytest

from support.maintenance.copied_world import CopiedWorld, copied_world


@pytest.fixture
def world() -> Iterator[CopiedWorld]:
    with copied_world() as made:
        yield made
