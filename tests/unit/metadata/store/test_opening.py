import subprocess
import sys

import pytest

from siltstone.metadata.store.opening import PostgresDriverMissing, log_exists, open_log, shown_url
from siltstone.metadata.store.port import LogNotFound, LogUnavailable, LogUrlMalformed
from support.metadata.log_entries import append_values


def test_the_path_is_what_follows(tmp_path) -> None:
    log = open_log(f"sqlite://{tmp_path}/with%20space/metadata.sqlite")
    append_values(log, b"a")
    log.close()
    assert (tmp_path / "with space" / "metadata.sqlite").exists()


def test_without_creating(tmp_path) -> None:
    with pytest.raises(LogNotFound):
        open_log(f"sqlite://{tmp_path}/metadata.sqlite", create=False)


def test_what_cannot_be_opened_says_what_to_look_at(tmp_path) -> None:
    (tmp_path / "metadata.sqlite").mkdir()
    with pytest.raises(
        LogUnavailable, match=r"cannot be opened: .*; check the permissions of the file and of its folder"
    ):
        open_log(f"sqlite://{tmp_path}/metadata.sqlite", create=False)


@pytest.mark.parametrize(
    "url", ["", "/a/b", "sqlite:", "sqlite:///", "sqlite://relative/m", "sqlite:a", "mysql://h/db"]
)
def test_other_urls(url) -> None:
    with pytest.raises(LogUrlMalformed, match="sqlite:///absolute"):
        open_log(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s3cret@h/db?schema=a-b",
        "postgresql://me:s3cret@h/%zz",
        "postgresql://me:s3cret@h/d?no=1",
    ],
)
def test_a_malformed_url_is_named_without_its_password(url) -> None:
    with pytest.raises(
        LogUrlMalformed, match=r"postgresql://user@host/database\?schema=siltstone"
    ) as refused:
        open_log(url)
    assert "s3cret" not in f"{refused.value} {refused.value.__cause__}" and "me:****@h" in str(refused.value)
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_a_url_is_shown_without_its_password() -> None:
    assert shown_url("postgresql://me:s3cret@h/db") == "postgresql://me:****@h/db"
    assert shown_url("sqlite:///a:b@c") == "sqlite:///a:b@c"


@pytest.mark.parametrize("opening", [open_log, log_exists])
def test_without_psycopg_the_extra_is_named(monkeypatch, opening) -> None:
    for module in [name for name in sys.modules if name.startswith("siltstone.metadata.store.postgres.")]:
        if not module.endswith(".place"):
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.delattr("siltstone.metadata.store.postgres.log", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(PostgresDriverMissing, match=r"pip install 'siltstone\[postgres\]'"):
        opening("postgresql://h/db")


def test_psycopg_is_imported_only_for_a_url_that_needs_it(tmp_path) -> None:
    code = (
        "import sys; from siltstone.metadata.store.opening import open_log; "
        f"open_log('sqlite://{tmp_path}/m.sqlite').close(); sys.exit('psycopg' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
