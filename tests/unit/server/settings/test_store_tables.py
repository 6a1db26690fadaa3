"""Where tables are, and the catalog that knows them: ``tables.location`` and ``tables.catalog.…``."""

from pathlib import Path

import pytest

from siltstone.server.settings.store import load_settings, printed_settings
from siltstone.server.settings.values import SettingRefused

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
    tables = load_settings(tmp_path, environment={}).tables
    assert tables.location == (tmp_path / "tables").as_uri()
    assert tables.catalog == {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/tables/catalog.sqlite",
        "warehouse": tables.location,
    }


def test_another_place_keeps_the_catalog_and_another_catalog_is_taken_as_it_is(tmp_path: Path) -> None:
    flags = {"tables.location": "s3://lake/x?region=eu"}
    tables = load_settings(tmp_path, environment={}, flags=flags).tables
    assert tables.location == "s3://lake/x?region=eu"
    assert (
        tables.catalog["uri"].endswith("/tables/catalog.sqlite")
        and tables.catalog["warehouse"] == "s3://lake/x"
    )
    environment = {"SILTSTONE_TABLES_CATALOG_URI": "postgresql+psycopg://me@db/catalog"}
    catalog = load_settings(tmp_path, environment=environment).tables.catalog
    assert catalog == {
        "uri": "postgresql+psycopg://me@db/catalog",
        "warehouse": (tmp_path / "tables").as_uri(),
    }


def test_a_file_may_have_any_property_of_the_catalog(tmp_path: Path) -> None:
    (tmp_path / "siltstone.toml").write_text(FILE)
    settings = load_settings(tmp_path, environment={})
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
    }
    printed = dict(printed_settings(load_settings(tmp_path, environment={}, flags=flags)))
    assert "hidden" not in repr(printed)
    assert printed["tables.catalog.uri"] == "postgresql+psycopg://me:…@db/catalog"
    assert printed["tables.catalog.token"] == "…"


def test_what_is_no_setting_of_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingRefused, match=r"tables\.place is not a setting"):
        load_settings(tmp_path, environment={}, flags={"tables.place": "x"})
