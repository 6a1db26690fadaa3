from pathlib import Path

import pytest

from siltstone.cli.demo.place import PlaceTaken, demo_folder


def test_a_temporary_folder_is_gone_afterwards_also_on_failure() -> None:
    with pytest.raises(KeyError), demo_folder(None, keep=False) as folder:
        (folder / "file").write_text("x")
        raise KeyError
    assert not folder.exists()


def test_it_stays_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with demo_folder(None, keep=True) as folder:
        pass
    assert folder.is_dir() and folder.parent == tmp_path


def test_a_folder_that_was_named_stays(tmp_path: Path) -> None:
    with demo_folder(tmp_path / "mine", keep=False) as folder:
        folder.mkdir()
    assert folder == tmp_path / "mine" and folder.is_dir()


def test_what_is_there_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for taken in (tmp_path, tmp_path / "file"):
        with pytest.raises(PlaceTaken, match="name another folder"), demo_folder(taken, keep=False):
            raise AssertionError("used a folder that is not empty")
