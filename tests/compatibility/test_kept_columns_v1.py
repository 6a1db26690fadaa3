"""The columns that a query keeps, in format 1: JSON that was written by hand from the layout."""

from siltstone.scanning.kept_columns import FOLDER, decode_columns, encode_columns
from siltstone.topic_configs.table_export import TableColumn

STORED = b'{"version":1,"columns":[["page","string"],["at","struct<lat:double,stops:array<string>>"],["ms","long"]]}'
COLUMNS = (
    TableColumn("page", "string"),
    TableColumn("at", "struct<lat:double,stops:array<string>>"),
    TableColumn("ms", "long"),
)


def test_they_are_read_and_written_again() -> None:
    assert decode_columns(STORED, "") == COLUMNS
    assert encode_columns(COLUMNS) == STORED
    assert FOLDER == "siltstone-columns/"
