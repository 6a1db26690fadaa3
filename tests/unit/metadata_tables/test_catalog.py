"""All tables by name, and the forms in which a program gets one."""

import pyarrow as pa
import pytest

from siltstone.metadata_tables.catalog import METADATA_TABLES, MetadataTableUnknown
from support.metadata.queried_store import queried, queried_world

NAMES = [
    "topics", "partitions", "streams", "objects", "object_ranges", "buckets", "nodes", "groups", "group_lags", "jobs",
    "tables", "sinks", "log",
]  # fmt: skip


def test_every_table_is_an_attribute() -> None:
    tables = queried()
    assert list(METADATA_TABLES) == list(tables.names) == NAMES
    assert set(NAMES) <= set(dir(tables))
    assert {name: getattr(tables, name).name for name in NAMES} == {name: name for name in NAMES}
    with pytest.raises(AttributeError, match="there is no table objcts"):
        tables.objcts  # noqa: B018
    with pytest.raises(MetadataTableUnknown, match="did you mean object"):
        tables.table("objcts")


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_of_the_schema_at_every_version_of_the_metadata(name: str) -> None:
    world = queried_world()
    for version in range(len(world.images)):
        table = queried(world, version).table(name)
        made = table.to_arrow()
        made.validate(full=True)
        assert made.schema == table.schema()
        assert made.select(made.schema.names[1:3]) == table.to_arrow(made.schema.names[1:3])


def test_a_table_is_arrow_pandas_or_polars() -> None:
    table = queried().objects
    assert isinstance(table.to_arrow(), pa.Table)
    assert list(table.to_pandas(["object_id"])["object_id"]) == [0, 1, 2, 3, 4]
    assert table.to_polars(["object_id"], limit=2)["object_id"].to_list() == [0, 1]
    assert repr(table) == f"<table objects of the metadata at version {queried().version}>"
    assert "object_ranges" in repr(queried())
