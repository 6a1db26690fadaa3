"""The columns that a query keeps: their form, and two processes at one place."""

from pathlib import Path

import pytest

from siltstone.scanning.kept_columns import ColumnsPlace, KeptColumnsDamaged, decode_columns, encode_columns
from siltstone.topic_configs.table_export import TableColumn

PAGE, MS = TableColumn("page", "string"), TableColumn("ms", "struct<a:long>")


def test_the_form_is_json() -> None:
    data = encode_columns((PAGE, MS))
    assert data == b'{"version":1,"columns":[["page","string"],["ms","struct<a:long>"]]}'
    assert decode_columns(data, "x") == (PAGE, MS)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\xff", b'{"version":1}', b'{"version":2,"columns":[]}', b'{"version":1,"columns":[["a","moment"]]}',
        b'{"version":1,"columns":[["a"]]}', b'{"version":1,"columns":[]} ]',
    ],
)  # fmt: skip
def test_damage_has_a_name_and_the_place(data: bytes) -> None:
    with pytest.raises(KeptColumnsDamaged, match="in x/1, cannot be read") as caught:
        decode_columns(data, "x/1")
    assert caught.value.place == "x/1"


def test_one_of_two_processes_keeps_its_columns_and_the_other_begins_again(tmp_path: Path) -> None:
    one, other = ColumnsPlace(str(tmp_path / "q")), ColumnsPlace((tmp_path / "q").as_uri())
    assert one.newest() == other.newest() == ()
    assert one.keep((PAGE,)) and not other.keep((MS,))
    assert other.newest() == (PAGE,) and other.keep((PAGE, MS))
    assert one.newest() == (PAGE, MS)


def test_a_file_of_another_name_is_damage(tmp_path: Path) -> None:
    folder = tmp_path / "siltstone-columns"
    folder.mkdir(parents=True)
    (folder / "copy.json").write_bytes(encode_columns((PAGE,)))
    with pytest.raises(KeptColumnsDamaged, match="its name is no number"):
        ColumnsPlace(str(tmp_path)).newest()
