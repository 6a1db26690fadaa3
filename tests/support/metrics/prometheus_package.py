"""Prometheus and its promtool: those on the path, or else Debian's package, unpacked once below ``.build``.

apt downloads the package from the mirrors that this machine is set up for, and installs nothing. Where there is no apt,
or no network, the tests that need the programs are skipped with the reason.
"""

import fcntl
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

BUILD = Path(__file__).parents[3] / ".build"
UNPACKED = BUILD / "prometheus"
PACKAGE = "prometheus"
SECONDS_MAX = 120


def program(name: str) -> str:
    """Returns the path of ``prometheus`` or ``promtool``; skips the test where it cannot be had."""
    if (found := _found(name)) is None:
        if reason := _why_not_unpacked():
            pytest.skip(f"no {name}: {reason}")
        found = _found(name)
    assert found is not None, f"Debian's package {PACKAGE} has no {name}"
    return found


def _found(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=str(UNPACKED / "usr" / "bin"))


@cache
def _why_not_unpacked() -> str:
    """Unpacks the package. Returns why it could not; empty if it is there."""
    if not (shutil.which("apt-get") and shutil.which("dpkg")):
        return "no apt, and Prometheus is not on the path"
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "prometheus.lock").open("w") as lock:  # other workers of these tests
        fcntl.flock(lock, fcntl.LOCK_EX)
        if UNPACKED.exists():
            return ""
        with TemporaryDirectory(dir=BUILD) as folder:
            try:
                _run("apt-get", "download", PACKAGE, cwd=folder)
                (package,) = Path(folder).glob("*.deb")
                _run("dpkg", "-x", str(package), "unpacked", cwd=folder)
            except (OSError, ValueError, subprocess.TimeoutExpired) as trouble:
                return f"Debian's package cannot be had: {trouble}"
            (Path(folder) / "unpacked").rename(UNPACKED)
    return ""


def _run(*command: str, cwd: str) -> None:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=SECONDS_MAX,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        raise OSError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"{command[0]} failed")
