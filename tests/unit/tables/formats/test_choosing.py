"""The format that is opened, and the error when a package is missing."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from siltstone.offline.settings import TableSettings
from siltstone.runtime.secret_sources import SecretNotReadable
from siltstone.tables.failures import LocationRefused, TablesMissing
from siltstone.tables.formats import choosing
from siltstone.tables.formats.choosing import _of_bucket_for_delta, home_of, open_format


class Asked:
    """The arguments with which pyiceberg's format was opened."""

    def __init__(self) -> None:
        self.catalog: dict[str, str] = {}
        self.home = ""
        self.is_closed = False

    def __call__(self, catalog: Any, home: str) -> "Asked":
        self.catalog, self.home = dict(catalog), home
        return self

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    made = Asked()
    module = SimpleNamespace(IcebergFormat=made)  # pyiceberg itself takes a second to import
    monkeypatch.setitem(sys.modules, "siltstone.tables.formats.iceberg", module)
    return made


def test_the_location_is_told_without_the_options_that_reach_the_bucket() -> None:
    assert home_of("s3://b/p/?endpoint_url=http://127.0.0.1:9000&region=r") == "s3://b/p"
    assert home_of("file:///tables") == "file:///tables"


def test_iceberg_reaches_the_bucket_as_we_do_unless_the_catalog_says_otherwise(asked: Asked) -> None:
    location = "s3://b/p?endpoint_url=http://127.0.0.1:9000&region=eu"
    with open_format(
        "iceberg", TableSettings(location=location, catalog={"type": "rest", "s3.region": "us"})
    ):
        assert not asked.is_closed
    assert asked.home == "s3://b/p" and asked.is_closed
    assert asked.catalog == {"type": "rest", "s3.endpoint": "http://127.0.0.1:9000", "s3.region": "us"}


def test_sp08_the_catalog_gets_the_secrets_that_its_settings_name(
    asked: Asked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text("v4lue\n")
    file.chmod(0o440)
    monkeypatch.setenv("CATALOG", "other")
    catalog = {
        "type": "rest",
        "token": f"file:{file}",
        "credential": "env:CATALOG",
        "warehouse": "file:/lake",
    }
    settings = TableSettings(location="file:///tables", catalog=catalog)
    assert "v4lue" not in repr(settings)
    with open_format("iceberg", settings):
        pass
    assert asked.catalog == {
        "type": "rest",
        "token": "v4lue",
        "credential": "other",
        "warehouse": "file:/lake",
    }
    file.chmod(0o644)
    with (
        pytest.raises(SecretNotReadable, match=r"tables.catalog.token: every user of this machine may read"),
        open_format("iceberg", settings),
    ):
        pass


def test_the_folder_of_iceberg_tables_is_named_as_icebergs_programs_do(asked: Asked) -> None:
    """They quote no character, and take what follows # or ? for no part of a path."""
    with open_format("iceberg", TableSettings(location="file:///a%20store/%C3%A4", catalog={})):
        assert asked.home == "file:///a store/ä"
    for name in ("a%23b", "a%3Fb"):
        settings = TableSettings(location=f"file:///{name}", catalog={})
        with pytest.raises(LocationRefused, match="has # or"), open_format("iceberg", settings):
            pass


def test_the_folder_of_a_catalog_in_sqlite_is_made(asked: Asked, tmp_path: Path) -> None:
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path / 'a' / 'b' / 'catalog.sqlite'}"}
    with open_format("iceberg", TableSettings(location=tmp_path.as_uri(), catalog=catalog)):
        assert (tmp_path / "a" / "b").is_dir()
    assert asked.catalog == catalog


def test_a_format_is_closed_when_its_user_fails(asked: Asked) -> None:
    settings = TableSettings(location="s3://b/p", catalog={"uri": "http://127.0.0.1"})
    with pytest.raises(KeyError), open_format("iceberg", settings):
        raise KeyError
    assert asked.is_closed


def test_a_package_that_is_not_installed_is_named_and_a_fault_of_ours_is_not_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def opened_with(missing: str) -> None:
        def opening(_: TableSettings) -> Any:
            raise ModuleNotFoundError(name=missing)

        monkeypatch.setattr(choosing, "_iceberg", opening)
        with open_format("iceberg", TableSettings()):
            pass

    with pytest.raises(TablesMissing, match="tables need pyiceberg; install it"):
        opened_with("pyiceberg.catalog")
    monkeypatch.setitem(sys.modules, "siltstone.tables.formats.delta", None)
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(ModuleNotFoundError):
        opened_with("siltstone.no_such_module")
    monkeypatch.setattr(choosing, "_parquet", lambda _: SimpleNamespace(close=lambda: None))
    with open_format("parquet", TableSettings()):
        pass


@pytest.mark.parametrize(
    ("location", "options"),
    [
        ("file:///tables", {}),
        ("s3://b/p", {"aws_conditional_put": "etag", "aws_virtual_hosted_style_request": "true"}),
        (
            "s3://b/p?endpoint_url=http://127.0.0.1:9000&region=r&anonymous=true",
            {
                "aws_conditional_put": "etag",
                "aws_region": "r",
                "aws_endpoint": "http://127.0.0.1:9000",
                "aws_allow_http": "true",
                "aws_skip_signature": "true",
            },
        ),
    ],
)
def test_delta_reaches_the_bucket_as_we_do(location: str, options: dict[str, str]) -> None:
    assert _of_bucket_for_delta(location) == options
