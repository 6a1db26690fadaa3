"""The chain of providers is read again after a refusal of the credentials, once for a request."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from botocore.credentials import RefreshableCredentials

from siltstone.object_store.s3.credentials import RENEWED_AFTER, S3Credentials, S3Session


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return tmp_path / "credentials"


def write(file: Path, key: str) -> None:
    file.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = s\n")


def is_repeated(session: S3Session, code: str, attempts: int = 1, signed_with: object = None) -> bool:
    answer = (SimpleNamespace(status_code=403), {"Error": {"Code": code}})
    request = {"context": {"siltstone_access": signed_with}}
    return session._is_to_be_repeated(answer, attempts, request) is not None


def test_a_key_that_has_changed_is_tried_once_and_one_that_has_not_is_not(file: Path) -> None:
    write(file, "old")
    session = S3Session()
    old = session.get_credentials().get_frozen_credentials()
    assert not is_repeated(session, "InvalidAccessKeyId", signed_with=old)
    write(file, "new")
    assert session.get_credentials().get_frozen_credentials() == old, "nothing is read without a refusal"
    assert not is_repeated(session, "NoSuchKey", signed_with=old)
    assert is_repeated(session, "ExpiredToken", signed_with=old)
    assert session.get_credentials().get_frozen_credentials().access_key == "new"
    assert is_repeated(session, "ExpiredToken", signed_with=old), "another thread has read it already"
    assert not is_repeated(session, "ExpiredToken", attempts=2, signed_with=old)
    assert session._is_to_be_repeated(None, 1, {"context": {}}) is None, "a connection that broke"


@pytest.mark.parametrize("code", sorted(RENEWED_AFTER))
def test_each_refusal_of_credentials_has_them_read_again(file: Path, code: str) -> None:
    write(file, "new")
    assert is_repeated(S3Session(), code)


def test_a_file_that_is_missing_for_a_moment_changes_nothing_and_one_that_comes_later_is_found(
    file: Path,
) -> None:
    credentials = S3Credentials()
    assert credentials.get_frozen_credentials() is None
    write(file, "first")
    assert credentials.get_frozen_credentials().access_key == "first"
    file.unlink()
    credentials.read_again()
    assert credentials.get_frozen_credentials().access_key == "first"


def test_the_credentials_of_a_role_are_left_to_botocore(file: Path) -> None:
    credentials = S3Credentials()
    role = object.__new__(RefreshableCredentials)
    credentials._found = role
    write(file, "new")
    credentials.read_again()
    assert credentials._found is role
