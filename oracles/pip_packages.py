"""Packages that only a few tests at night need: pip puts them into a folder of ``.build``, once."""

import fcntl
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from oracles.java_artifacts import JARS, JavaArtifactsUnavailable

INSTALL_SECONDS_MAX = 900


def installed(name: str, packages: Sequence[str], *, with_what_they_need: bool = True) -> Path:
    """Returns the folder with the packages. Raises JavaArtifactsUnavailable where pip has no network."""
    JARS.mkdir(parents=True, exist_ok=True)
    folder = JARS.parent / name
    with (JARS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _install(folder, packages, [] if with_what_they_need else ["--no-deps"])
    return folder


def _install(folder: Path, packages: Sequence[str], options: Sequence[str]) -> None:
    filling = Path(tempfile.mkdtemp(dir=JARS, prefix="filling-"))
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        *options,
        "--target",
        str(filling),
        *packages,
    ]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX, check=False
        )
        if done.returncode:
            raise JavaArtifactsUnavailable(f"pip does not get {packages[0]}: {done.stderr.strip()[-300:]}")
        filling.rename(folder)
    finally:
        shutil.rmtree(filling, ignore_errors=True)
