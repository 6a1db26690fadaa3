"""Runs benchmarks of another build and of this one in turn: ``python -m benchmarks.before a5373df2 d i``.

The other build is a commit, in a clone of its own in ``.build/before``. Each round runs a row of the other build and
then of this one, each in a process of its own with its own program for the row, so both have the same minutes of the
machine. A figure is compared by its first number."""

import argparse
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median

import msgspec
from rich.console import Console

from benchmarks.support.report import Row, show

ROOT = Path(__file__).parent.parent
ROUNDS = 5
_ROWS = (
    "import sys, msgspec; from benchmarks.__main__ import BENCHMARKS; "
    "rows = BENCHMARKS[sys.argv[1]][1](); sys.stdout.write('\\n' + msgspec.json.encode(rows).decode())"
)
_NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?")


def clone_of(commit: str) -> Path:
    """Returns the folder of another build. Raises subprocess.CalledProcessError for a commit that is not there."""
    folder = ROOT / ".build" / "before" / commit
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        clone = ["git", "clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(folder)]
        subprocess.run(clone, check=True)
    subprocess.run(["git", "-C", str(folder), "checkout", "--quiet", commit], check=True)
    return folder


def rows_of(build: Path, row: str) -> list[Row]:
    """Runs one benchmark of a build. Raises subprocess.CalledProcessError."""
    paths = os.pathsep.join(str(build / each) for each in ("src", ".", "tests"))
    done = subprocess.run(
        [sys.executable, "-c", _ROWS, row], cwd=build, env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    return msgspec.json.decode(done.stdout.rpartition(b"\n")[2], type=list[Row])


def compared(before: Sequence[Sequence[Row]], now: Sequence[Sequence[Row]]) -> list[Row]:
    """Makes a row for each measure that both builds have: the median of this one, that of the other one, and the first
    as a multiple of the second. Each argument has the rows of all rounds."""
    ours, theirs = _figures(now), _figures(before)
    found = []
    for name in [each for each in ours if each in theirs]:
        figure, other = median(ours[name]), median(theirs[name])
        ratio = f"{figure / other:.2f} ×" if other else "–"
        found.append(Row(name[0], f"{figure:,g}", f"before {other:,g}: {ratio}"))
    return found


def _figures(rounds: Iterable[Sequence[Row]]) -> dict[tuple[str, int], list[float]]:
    """Returns the first numbers of the figures by their measure, and how often it came before: some rows have one name,
    such as "… CPU"."""
    found: dict[tuple[str, int], list[float]] = {}
    for rows in rounds:
        seen: Counter[str] = Counter()
        for each in rows:
            name = each.measure, seen[each.measure]
            seen[each.measure] += 1
            if (number := _NUMBER.search(each.figure)) is not None:
                found.setdefault(name, []).append(float(number[0].replace(",", "")))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "benchmarks.before", description="Benchmarks of another build beside this one."
    )
    parser.add_argument("commit")
    parser.add_argument("rows", nargs="+")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args(arguments)
    other, terminal = clone_of(given.commit), Console()
    for row in given.rows:
        before, now = [], []
        for number in range(given.rounds):
            before.append(rows_of(other, row))
            now.append(rows_of(ROOT, row))
            terminal.print(f"({row}) round {number + 1} of {given.rounds}")
        show(f"({row}) this build, and {given.commit}", compared(before, now), terminal)
    return 0


if __name__ == "__main__":
    sys.exit(main())
