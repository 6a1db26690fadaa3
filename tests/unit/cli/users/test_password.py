"""Where a password comes from. That it is asked for at a terminal is seen in tests/integration/test_users.py."""

from pathlib import Path

import pytest

from siltstone.cli.users.password import (
    PASSWORD_BYTES_MAX,
    PasswordNotReadable,
    read_password,
)
from siltstone.model.secret import Secret


def file_of(folder: Path, content: bytes, mode: int = 0o600) -> str:
    path = folder / "password"
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


@pytest.mark.parametrize("content", [b"pencil", b"pencil\n", b"pencil\r\n", b"pencil\nsecond line\n"])
def test_the_first_line_of_a_file_is_the_password(tmp_path, content: bytes) -> None:
    assert read_password("ada", file_of(tmp_path, content)) == Secret("pencil")


def test_blanks_belong_to_a_password(tmp_path) -> None:
    assert read_password("ada", file_of(tmp_path, b" two words \n")) == Secret(" two words ")


@pytest.mark.parametrize(
    ("content", "mode", "said"),
    [
        (b"pencil", 0o644, "every user of this machine may read"),
        (b"", 0o600, "is not empty"),
        (b"\n", 0o600, "is not empty"),
        (b"a\0b", 0o600, "no NUL"),
        (b"\xff", 0o600, "not UTF-8"),
        (b"x" * (PASSWORD_BYTES_MAX + 1), 0o600, "more than"),
    ],
)
def test_sp08_files_that_are_refused(tmp_path, content: bytes, mode: int, said: str) -> None:
    with pytest.raises(PasswordNotReadable, match=said) as refused:
        read_password("ada", file_of(tmp_path, content, mode))
    assert "pencil" not in str(refused.value)


@pytest.mark.parametrize("mode", [0o640, 0o440, 0o600])
def test_sp08_files_that_are_taken(tmp_path, mode: int) -> None:
    assert read_password("ada", file_of(tmp_path, b"pencil", mode)) == Secret("pencil")


def test_a_file_that_is_not_there(tmp_path) -> None:
    with pytest.raises(PasswordNotReadable, match="cannot be read: No such file"):
        read_password("ada", str(tmp_path / "nothing"))
