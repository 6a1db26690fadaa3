"""The source of an older version, out of the history of this repository, and the program that runs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.broker.server_cluster import Program
from support.pages.documents import ROOT

BEFORE_VERSIONS_IN_LOGS = "19f6502ed4ffecf7f916d027f47ebb28aaeece9f"
"""The last commit whose logs, in files and in buckets, have format 1: later ones say which version of the metadata
their node had read. A program of this commit cannot read the log of a newer one."""

BEFORE_LEVELS = "95493a3c6f83fdad4c5baf128f5737c4a2052edd"
"""The last commit that knows no levels of stores: it tells none, and refuses a store that has one."""

_MAIN = "import sys; from siltstone.cli.program import main; sys.exit(main())"


def older_program(commit: str, folder: Path) -> Program:
    """Returns the program ``siltstone`` of a commit. Skips the test where the history does not have it: in a shallow
    clone, and in a source without a history."""
    packed = subprocess.run(
        ["git", "-C", str(ROOT), "archive", commit, "src"], capture_output=True, check=False
    )
    if packed.returncode != 0:
        why = packed.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["git failed"]
        pytest.skip(f"the older version is commit {commit[:8]} of the history, which is not here: {why[0]}")
    folder.mkdir(parents=True)
    subprocess.run(["tar", "-x", "-C", str(folder)], input=packed.stdout, check=True)
    environment = {**os.environ, "PYTHONPATH": str(folder / "src")}
    found = subprocess.run(
        [sys.executable, "-c", "import siltstone; print(siltstone.__file__)"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.startswith(str(folder)), f"another version would run: {found.stdout}"
    return Program((sys.executable, "-c", _MAIN), environment)
