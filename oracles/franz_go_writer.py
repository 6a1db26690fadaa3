"""The client franz-go, in Go: a program that writes numbered records, built from ``franz_go`` into ``.build/franz-go``.

Its modules come from Go's proxy by Go's own command, at the versions and sums that ``go.sum`` notes.
"""

import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).parent / "franz_go"
PROGRAM = Path(__file__).parents[1] / ".build" / "franz-go" / "numbered_writer"
BUILD_SECONDS_MAX = 900


class GoUnavailable(Exception):
    """There is no Go on this machine, or the program cannot be built: the text says why."""


def franz_go_writer() -> Path:
    """Returns the program; builds it when it is not there, or older than its source. Raises GoUnavailable."""
    newest = max(path.stat().st_mtime for path in SOURCE.iterdir())
    if PROGRAM.exists() and PROGRAM.stat().st_mtime >= newest:
        return PROGRAM
    go = shutil.which("go")
    if go is None:
        raise GoUnavailable("there is no program go in the PATH")
    PROGRAM.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [go, "build", "-o", str(PROGRAM), "."],
        cwd=SOURCE, capture_output=True, text=True, timeout=BUILD_SECONDS_MAX, check=False,
    )  # fmt: skip
    if done.returncode:
        raise GoUnavailable(f"go build failed: {done.stderr.strip()[-500:]}")
    return PROGRAM
