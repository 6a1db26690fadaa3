"""Where tables are, and the catalog that knows them: ``tables.location`` and ``tables.catalog.…``."""

from pathlib import Path

import pytest

from siltstone.offline.opening.values import SettingRefused
from siltstone.server.settings.node import load_node_settings, printed_settings

FILE = """
[tables]
location = "s3://lake/siltstone"

[tables.catalog]
type = "rest"
uri = "https://catalog.example/api"
warehouse = "lake"
"s3.path-style-access" = true
token = "secret"
"""


def test_by_default_they_are_in_the_stores_folder_with_a_catalog_on_sqlite(tmp_path: Path) -> None:
    tables = load_node_settings(tmp_path, environment={}).tables
    assert tables.location == (tmp_path / "tables").as_uri()
    assert tables.catalog == {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/tables/catalog.sqlite",
        "warehouse": tables.location,
    }


def test_another_place_keeps_the_catalog_and_another_catalog_is_taken_as_it_is(tmp_path: Path) -> None:
    flags = {"tables.location": "s3://lake/x?region=eu"}
    tables = load_node_settings(tmp_path, environment={}, flags=flags).tables
    assert tables.location == "s3://lake/x?region=eu"
    assert (
        tables.catalog["uri"].endswith("/tables/catalog.sqlite")
        and tables.catalog["warehouse"] == "s3://lake/x"
    )
    environment = {"SILTSTONE_TABLES_CATALOG_URI": "postgresql+psycopg://me@db/catalog"}
    catalog = load_node_settings(tmp_path, environment=environment).tables.catalog
    assert catalog == {
        "uri": "postgresql+psycopg://me@db/catalog",
        "warehouse": (tmp_path / "tables").as_uri(),
    }


def test_sp08_a_property_names_the_place_of_its_secret(tmp_path: Path) -> None:
    file = tmp_path / "siltstone.toml"
    file.write_text(
        '[tables.catalog]\ntype = "rest"\ntoken = "file:secrets/token"\ncredential = "env:CATALOG"\n'
        'warehouse = "file:/lake"\n'
    )
    file.chmod(0o644)  # it holds no secret
    settings = load_node_settings(tmp_path, environment={})
    assert settings.tables.catalog == {
        "type": "rest",
        "token": f"file:{tmp_path}/secrets/token",
        "credential": "env:CATALOG",
        "warehouse": "file:/lake",
    }
    assert f"tables.catalog.token = file:{tmp_path}/secrets/token" in str(settings)


def test_a_file_may_have_any_property_of_the_catalog(tmp_path: Path) -> None:
    path = tmp_path / "siltstone.toml"
    path.write_text(FILE)
    path.chmod(0o640)
    settings = load_node_settings(tmp_path, environment={})
    assert settings.tables.location == "s3://lake/siltstone"
    assert settings.tables.catalog == {
        "type": "rest",
        "uri": "https://catalog.example/api",
        "warehouse": "lake",
        "s3.path-style-access": "true",
        "token": "secret",
    }


def test_secrets_are_not_printed(tmp_path: Path) -> None:
    flags = {
        "tables.catalog.uri": "postgresql+psycopg://me:hidden@db/catalog",
        "tables.catalog.s3.secret-access-key": "hidden",
        "tables.catalog.token": "hidden",
        "tables.catalog.header.Authorization": "Bearer hidden",
        "tables.registry": "https://hidden@registry",
        "admin.otlp_endpoint": "https://metrics:hidden@otel.example/v1/metrics?token=hidden",
    }
    printed = dict(printed_settings(load_node_settings(tmp_path, environment={}, flags=flags)))
    assert "hidden" not in repr(printed)
    assert printed["tables.catalog.uri"] == "postgresql+psycopg://me:****@db/catalog"
    assert printed["tables.catalog.token"] == "****"


@pytest.mark.parametrize(("mode", "is_taken"), [(0o644, False), (0o440, True), (0o640, True), (0o600, True)])
@pytest.mark.parametrize(
    "line",
    [
        'metadata = "postgresql://me:s3cret@h/db"',
        'tables.catalog."header.Authorization" = "s3cret"',
        'tables.registry = "https://me:s3cret@registry"',
    ],
)
def test_sp08_a_file_with_a_secret_that_everybody_may_read_is_refused(
    tmp_path: Path, line: str, mode: int, is_taken: bool
) -> None:
    path = tmp_path / "siltstone.toml"
    path.write_text(line)
    path.chmod(mode)
    if is_taken:
        load_node_settings(tmp_path, environment={})
        return
    with pytest.raises(SettingRefused, match=f"holds a secret .*: chmod 640 {path}") as refused:
        load_node_settings(tmp_path, environment={})
    assert "s3cret" not in str(refused.value)


def test_a_file_without_a_secret_may_be_read_by_everybody(tmp_path: Path) -> None:
    path = tmp_path / "siltstone.toml"
    path.write_text('metadata = "postgresql://me@h/db"\ntables.catalog.type = "rest"\n')
    path.chmod(0o644)
    load_node_settings(tmp_path, environment={})


def test_what_is_no_setting_of_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingRefused, match=r"tables\.place is not a setting"):
        load_node_settings(tmp_path, environment={}, flags={"tables.place": "x"})
