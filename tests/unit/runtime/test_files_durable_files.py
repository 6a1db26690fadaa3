import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.runtime import files as durable_files
from siltstone.runtime.files import (
    FILE_MODE,
    PRIVATE_FILE_MODE,
    PRIVATE_FOLDER_MODE,
    replace_file,
    sync_directory,
    take_from_others,
    write_at,
)


class RecordingOs:
    """``os`` that writes at most so many bytes a call and remembers what was made durable, in order."""

    def __init__(self, write_bytes_max: int = 1 << 30) -> None:
        self.write_bytes_max = write_bytes_max
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def pwritev(self, descriptor: int, buffers: list[bytes], position: int) -> int:
        assert len(buffers) <= os.sysconf("SC_IOV_MAX")
        self.calls.append("write")
        return os.pwritev(descriptor, [b"".join(buffers)[: self.write_bytes_max]], position)

    def fdatasync(self, descriptor: int) -> None:
        self.calls.append(f"fdatasync {os.path.basename(os.readlink(f'/proc/self/fd/{descriptor}'))}")
        os.fdatasync(descriptor)

    def fsync(self, descriptor: int) -> None:
        self.calls.append(f"fsync {os.path.basename(os.readlink(f'/proc/self/fd/{descriptor}'))}")
        os.fsync(descriptor)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> RecordingOs:
    made = RecordingOs()
    monkeypatch.setattr(durable_files, "os", made)
    return made


PIECES = [b"", b"abc", memoryview(b"defg")[1:], bytearray(b"h"), b""]


@pytest.mark.parametrize("write_bytes_max", [1, 2, 3, 100])
@pytest.mark.parametrize("pieces", [[], [b""], PIECES, PIECES * 700])
def test_all_buffers_are_written_however_little_one_call_takes(
    tmp_path: Path, recorder: RecordingOs, pieces: list[bytes], write_bytes_max: int
) -> None:
    recorder.write_bytes_max = write_bytes_max
    path = tmp_path / "file"
    path.write_bytes(b"123456789")
    with path.open("r+b") as file:
        written = write_at(file.fileno(), pieces, 4)
    content = b"".join(pieces)
    assert written == len(content)
    assert path.read_bytes() == b"1234" + content + b"123456789"[4 + len(content) :]


@given(st.lists(st.binary(max_size=20), max_size=8), st.integers(1, 30))
def test_any_buffers_in_any_steps(pieces: list[bytes], write_bytes_max: int) -> None:
    stepping = RecordingOs(write_bytes_max)
    descriptor = os.memfd_create("file")
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(durable_files, "os", stepping)
            assert write_at(descriptor, pieces, 0) == sum(map(len, pieces))
        assert os.pread(descriptor, 1000, 0) == b"".join(pieces)
    finally:
        os.close(descriptor)


def test_the_buffers_of_the_caller_stay_as_they_are(tmp_path: Path, recorder: RecordingOs) -> None:
    recorder.write_bytes_max = 1
    pieces = [b"ab", b"cd"]
    with (tmp_path / "file").open("w+b") as file:
        write_at(file.fileno(), pieces, 0)
    assert pieces == [b"ab", b"cd"]


def test_a_replaced_file_is_durable_before_its_name_and_its_name_when_the_call_returns(
    tmp_path: Path, recorder: RecordingOs
) -> None:
    path = tmp_path / "identity.json"
    replace_file(path, b"old and longer")
    recorder.calls = []
    replace_file(path, b"new")
    assert path.read_bytes() == b"new"
    assert recorder.calls == ["write", "fdatasync identity.json.draft", f"fsync {tmp_path.name}"]
    assert [each.name for each in tmp_path.iterdir()] == ["identity.json"]


def test_a_replacement_that_fails_leaves_the_file_and_can_be_made_again(
    tmp_path: Path, recorder: RecordingOs, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "identity.json"
    replace_file(path, b"old")

    def refuse(descriptor: int) -> None:
        raise OSError("no")

    with monkeypatch.context() as broken:
        broken.setattr(recorder, "fdatasync", refuse)
        with pytest.raises(OSError, match="no"):
            replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    replace_file(path, b"newer")
    assert path.read_bytes() == b"newer"


def test_a_directory_that_is_not_there_is_not_synced(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sync_directory(tmp_path / "nowhere")


def test_a_replaced_file_is_for_its_user_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        replace_file(tmp_path / "identity", b"content")
    finally:
        os.umask(before)
    assert (tmp_path / "identity").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("mode", "expected"), [(0o644, 0o600), (0o660, 0o600), (0o404, 0o400), (0o755, 0o700), (0o600, 0o600)]
)
def test_the_permissions_of_others_are_taken_and_a_warning_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, expected: int
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    path.chmod(mode)
    take_from_others(path)
    assert path.stat().st_mode & 0o777 == expected
    assert [str(path) in message for message in caplog.messages] == [True] * (mode != expected)


def test_a_file_of_another_user_keeps_its_permissions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    path.chmod(0o644)
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    take_from_others(path)
    take_from_others(tmp_path / "none")
    assert path.stat().st_mode & 0o777 == 0o644
    assert caplog.messages == []


def test_what_is_no_file_keeps_its_permissions(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """``/dev/null`` was closed to all other users of the machine when root named it as the metadata."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    path.chmod(0o666)
    take_from_others(path)
    assert path.stat().st_mode & 0o777 == 0o666
    assert caplog.messages == []


def test_a_file_whose_permissions_cannot_be_changed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    path.chmod(0o644)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError("read-only file system")

    monkeypatch.setattr(os, "chmod", refuse)
    take_from_others(path)
    assert caplog.messages == [f"{path} stays open to other users of this machine: read-only file system"]


def test_the_modes_of_what_is_private_and_of_what_is_not() -> None:
    assert (FILE_MODE, PRIVATE_FILE_MODE, PRIVATE_FOLDER_MODE) == (0o666, 0o600, 0o700)
