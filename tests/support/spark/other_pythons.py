"""Pythons that a cluster may have by mistake: one without our packages, one of another version."""

import sys
from pathlib import Path

import pyspark

SPARK = Path(pyspark.__file__).parent


def bare_python(folder: Path) -> Path:
    """This Python without installed packages. Spark brings its own with each job."""
    return _program(folder / "bare-python", f'exec {sys.executable} -S "$@"')


def other_python(folder: Path) -> Path:
    """A Python that says it is 3.9."""
    module = folder / "other"
    module.mkdir()
    (module / "sitecustomize.py").write_text(
        "import sys\n"
        "class Version(tuple):\n"
        "    major, minor, micro, releaselevel, serial = 3, 9, 1, 'final', 0\n"
        "sys.version_info = Version((3, 9, 1, 'final', 0))\n"
    )
    return _program(
        folder / "other-python",
        f'export PYTHONPATH="{module}:$PYTHONPATH"\nexec {sys.executable} "$@"',
    )


def _program(path: Path, command: str) -> Path:
    packages = ":".join(map(str, sorted((SPARK / "python" / "lib").glob("*.zip"))))
    path.write_text(f'#!/bin/sh\nexport PYTHONPATH="{packages}"\n{command}\n')
    path.chmod(0o755)
    return path
