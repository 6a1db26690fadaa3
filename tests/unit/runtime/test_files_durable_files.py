import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from siltstone.runtime import files as durable_files
from siltstone.runtime.files import replace_file, sync_directory, write_at


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
