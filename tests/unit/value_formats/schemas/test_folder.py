"""A folder as a registry."""

import json
from pathlib import Path

import pytest

from siltstone.value_formats.failures import (
    FormatRefused,
    RegistryNotReachable,
    SchemaMalformed,
    SchemaUnknown,
)
from siltstone.value_formats.schemas import opening
from siltstone.value_formats.schemas.folder import FolderRegistry, read_schema_file
from siltstone.value_formats.schemas.opening import open_registry, shared_registry
from siltstone.value_formats.value_format import FormatKind


def folder_of(path: Path) -> Path:
    (path / "1.avsc").write_text('"int"')
    (path / "2.json").write_text('{"type": "object"}')
    (path / "subjects.json").write_text(json.dumps({"flights-value": [1, 2]}))
    return path


def test_schemas_by_id_and_the_newest_of_a_subject(tmp_path: Path) -> None:
    registry = open_registry(folder_of(tmp_path).as_uri())
    assert registry.schema(1).kind is FormatKind.AVRO
    assert registry.latest("flights-value") == (2, registry.schema(2))
    assert registry.url == tmp_path.as_uri()
    assert open_registry(str(tmp_path)).schema(2).text == '{"type": "object"}'


def test_what_is_not_there(tmp_path: Path) -> None:
    registry = FolderRegistry(folder_of(tmp_path))
    with pytest.raises(SchemaUnknown, match="no schema 3"):
        registry.schema(3)
    with pytest.raises(SchemaUnknown, match="no subject 'other-value'"):
        registry.latest("other-value")
    with pytest.raises(RegistryNotReachable):
        FolderRegistry(tmp_path / "gone").schema(1)
    with pytest.raises(SchemaUnknown, match="is not there"):
        FolderRegistry(tmp_path / "gone").latest("x")
    (tmp_path / "subjects.json").write_text("[]")
    with pytest.raises(SchemaMalformed):
        registry.latest("x")


def test_a_file_that_is_no_schema(tmp_path: Path) -> None:
    with pytest.raises(FormatRefused, match="ends in none"):
        read_schema_file(tmp_path / "x.proto")
    with pytest.raises(FormatRefused, match="is not there"):
        read_schema_file(tmp_path / "x.avsc")
    (tmp_path / "bad.avsc").write_bytes(b"\xff")
    with pytest.raises(SchemaMalformed):
        read_schema_file(tmp_path / "bad.avsc")


def test_a_process_shares_a_registry(tmp_path: Path) -> None:
    url = tmp_path.as_uri()
    assert shared_registry(url) is shared_registry(url)


def test_a_process_keeps_so_many_registries_and_drops_the_oldest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_shared", {})
    first, second, _ = (shared_registry(f"{tmp_path.as_uri()}/{name}", 2) for name in "abc")
    assert len(opening._shared) == 2
    assert shared_registry(second.url) is second
    assert shared_registry(first.url) is not first


def test_a_file_may_have_the_name_of_a_guid(tmp_path: Path) -> None:
    guid = "89791762-2336-4186-9674-299b90a802e2"
    (tmp_path / f"{guid}.avsc").write_text('"long"')
    assert FolderRegistry(tmp_path).schema(guid).text == '"long"'
    with pytest.raises(SchemaUnknown, match="no schema 00000000"):
        FolderRegistry(tmp_path).schema("00000000-2336-4186-9674-299b90a802e2")
