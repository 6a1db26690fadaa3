"""SP08: a secret comes from the environment, or from a file that not every user of the machine may read."""

import os
from pathlib import Path

import pytest

from siltstone.model.secret import Secret
from siltstone.runtime.secret_sources import (
    SecretNotReadable,
    read_secret_file,
    resolved,
    secret_line,
    secret_of_variables,
)

PLANTED = "v4lue"


def file_of(folder: Path, content: bytes = PLANTED.encode(), mode: int = 0o600) -> Path:
    path = folder / "secret"
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o440, 0o400])
def test_sp08_a_group_may_read_the_file(tmp_path: Path, mode: int) -> None:
    assert read_secret_file(file_of(tmp_path, mode=mode), "a.setting") == PLANTED.encode()


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o444])
def test_sp08_a_file_that_everybody_may_read_is_refused_with_what_to_do(tmp_path: Path, mode: int) -> None:
    path = file_of(tmp_path, mode=mode)
    with pytest.raises(SecretNotReadable) as refused:
        read_secret_file(path, "a.setting")
    assert str(refused.value).startswith(
        f"a.setting: every user of this machine may read {path}: chmod 640 it"
    )
    assert refused.value.origin == "a.setting" and PLANTED not in str(refused.value)


def test_a_device_is_no_file_that_holds_a_secret() -> None:
    assert read_secret_file(Path(os.devnull), "a.setting") == b""


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "is empty"), (b"\nv4lue", "is empty"), (b"\xff", "not UTF-8"), (b"x" * 9, "more than 8 bytes")],
)
def test_what_is_no_secret_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(SecretNotReadable, match=said) as refused:
        secret_line(file_of(tmp_path, content), "a.setting", 8)
    assert PLANTED not in str(refused.value)


def test_the_first_line_is_the_secret_and_blanks_belong_to_it(tmp_path: Path) -> None:
    assert secret_line(file_of(tmp_path, b" two words \r\nmore"), "a.setting") == Secret(" two words ")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SecretNotReadable, match=r"a.setting: .*nothing cannot be read: No such file"):
        secret_line(tmp_path / "nothing", "a.setting")


def test_a_variable_or_the_file_that_its_twin_names(tmp_path: Path) -> None:
    path = str(file_of(tmp_path))
    assert secret_of_variables({}, "AUTH") is None
    assert secret_of_variables({"AUTH": PLANTED}, "AUTH") == Secret(PLANTED)
    assert secret_of_variables({"AUTH_FILE": path}, "AUTH") == Secret(PLANTED)
    with pytest.raises(SecretNotReadable, match="AUTH_FILE: AUTH is set, too") as refused:
        secret_of_variables({"AUTH": PLANTED, "AUTH_FILE": path}, "AUTH")
    assert PLANTED not in str(refused.value)


def test_a_value_names_the_place_of_a_secret_or_is_one(tmp_path: Path) -> None:
    path = file_of(tmp_path)
    assert resolved("plain", "a.setting", {}) == Secret("plain")
    assert resolved("file:///folder", "a.setting", {}) == Secret("file:///folder")
    assert resolved("env:NAME", "a.setting", {"NAME": PLANTED}) == Secret(PLANTED)
    assert resolved(f"file:{path}", "a.setting", {}) == Secret(PLANTED)
    with pytest.raises(SecretNotReadable, match=r"a.setting: the environment has no variable NAME"):
        resolved("env:NAME", "a.setting", {})
    path.chmod(0o644)
    with pytest.raises(SecretNotReadable, match=r"a.setting: every user of this machine may read"):
        resolved(f"file:{path}", "a.setting", {})
