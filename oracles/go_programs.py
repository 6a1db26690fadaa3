"""Programs in Go, built by Go's own command into ``.build/go``: a writer of numbered records and a member of a group
with franz-go, from ``oracles/franz_go`` and ``oracles/franz_go_member``, and MinIO.

Modules come from Go's proxy, at the versions and sums that ``go.sum`` notes, or Go's own database of sums.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

ORACLES = Path(__file__).parent
PROGRAMS = ORACLES.parent / ".build" / "go"
BUILD_SECONDS_MAX = 1_800
MINIO = "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c"
"""The newest commit in the proxy: MinIO's releases have no version that Go could name."""


class GoUnavailable(Exception):
    """There is no Go on this machine, or a program cannot be built: the text says why."""


def franz_go_writer() -> Path:
    """Returns the program; builds it if it is missing or older than its source. Raises GoUnavailable."""
    return _built("franz_go", "numbered_writer")


def franz_go_member() -> Path:
    """Returns the program; builds it if it is missing or older than its source. Raises GoUnavailable."""
    return _built("franz_go_member", "group_member")


def _built(folder: str, name: str) -> Path:
    source, program = ORACLES / folder, PROGRAMS / name
    newest = max(path.stat().st_mtime for path in source.iterdir())
    if not program.exists() or program.stat().st_mtime < newest:
        _go(["build", "-o", str(program), "."], source)
    return program


def minio_program() -> Path:
    """Returns the program; builds it if it is missing, which takes minutes. Raises GoUnavailable."""
    program = PROGRAMS / "minio"
    if not program.exists():
        _go(["install", MINIO], ORACLES, {"GOBIN": str(PROGRAMS)})
    return program


def _go(words: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None) -> None:
    go = shutil.which("go")
    if go is None:
        raise GoUnavailable("there is no program go in the PATH")
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [go, *words],
        cwd=folder, env={**os.environ, **(environment or {})}, capture_output=True, text=True,
        timeout=BUILD_SECONDS_MAX, check=False,
    )  # fmt: skip
    if done.returncode:
        raise GoUnavailable(f"go {words[0]} failed: {done.stderr.strip()[-500:]}")
