from collections.abc import Iterator
from pathlib import Path

import pytest

from siltstone.tables import rewriting
from support.maintenance.table_world import TableWorld, table_world


@pytest.fixture(params=["parquet", "iceberg", "delta"])
def world(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[TableWorld]:
    with table_world(tmp_path, request.param) as made:
        yield made


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[TableWorld]:
    """Makes a plain Parquet world, for tests that do not depend on the format."""
    with table_world(tmp_path, "parquet") as made:
        yield made


@pytest.fixture
def iceberg(tmp_path: Path) -> Iterator[TableWorld]:
    with table_world(tmp_path, "iceberg") as made:
        yield made


@pytest.fixture
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that merges holds five new rows at a time."""
    monkeypatch.setattr(rewriting, "SLICE_ROWS", 5)
