from collections.abc import Iterator

import pytest

from support.maintenance.compaction_world import CompactionWorld, compaction_world


@pytest.fixture
def world() -> Iterator[CompactionWorld]:
    with compaction_world() as made:
        yield made
