"""Habits of this code that a machine can check, checked."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "siltstone"

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
BANNED_WORDS = {"manager", "util", "utils", "helper", "helpers", "base", "common", "impl"}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def modules() -> tuple[tuple[str, str, ast.Module], ...]:
    """(path below src/siltstone, text, tree) of each."""
    read = [(path, path.read_text()) for path in sorted(SOURCE.rglob("*.py"))]
    return tuple((str(path.relative_to(SOURCE)), text, ast.parse(text)) for path, text in read)


@cache
def tracked_texts() -> dict[str, str]:
    """Every text file that git knows, by its path."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    texts: dict[str, str] = {}
    for name in listed.decode().split("\0"):
        try:
            texts[name] = (ROOT / name).read_text()
        except (UnicodeDecodeError, OSError):
            continue  # golden bytes; a file that is gone from the work tree
    return texts


def words_of(name: str) -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)}


def names_of(path: str, tree: ast.Module) -> Iterator[str]:
    yield from Path(path).with_suffix("").parts
    yield from (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def test_there_is_something_to_check() -> None:
    assert len(modules()) > 20
    assert len(tracked_texts()) > 50


def test_no_file_holds_two_ideas() -> None:
    long = {path: lines for path, text, _ in modules() if (lines := len(text.splitlines())) > FILE_LINES_MAX}
    assert long == {}


def test_no_function_holds_two_ideas() -> None:
    long = [
        f"{path}: {node.name}"
        for path, _, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, Function) and (node.end_lineno or 0) - node.lineno >= FUNCTION_LINES_MAX
    ]
    assert long == []


def test_names_say_what_a_thing_is() -> None:
    vague = [
        (path, name)
        for path, _, tree in modules()
        for name in names_of(path, tree)
        if words_of(name) & BANNED_WORDS
    ]
    assert vague == []


def test_every_module_says_what_it_holds() -> None:
    assert [path for path, _, tree in modules() if ast.get_docstring(tree) is None] == []


# Put together, so that this file does not name what it looks for.
PLACES = {
    "a machine's path": re.compile("/(?:work" + "/(?:main|shared)|root" + r"/|home/\w+/|opt/wheels)"),
    "a registry's host": re.compile(
        "|".join(["py" + r"pi\.org", "files.python" + "hosted", "crates" + r"\.io", "registry.np" + "mjs"])
    ),
    "an index": re.compile("--(?:extra-)?index" + "-url|--find" + "-links"),
}


@pytest.mark.parametrize("place", PLACES)
def test_no_tracked_file_names(place: str) -> None:
    found = [name for name, text in tracked_texts().items() if PLACES[place].search(text)]
    assert found == []


def test_constraints_are_plain_pins() -> None:
    lines = (ROOT / "requirements" / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line)] == []


def mirrors_a_module(test: Path) -> bool:
    """tests/unit/x/test_y.py covers src/siltstone/x/y.py, or the package y. One aspect of y has y at either end of its
    name: test_engine_close.py, test_read_settings.py."""
    words = test.stem.removeprefix("test_").split("_")
    names = ["_".join(words[:end]) for end in range(1, len(words) + 1)]
    names += ["_".join(words[start:]) for start in range(1, len(words))]
    folder = SOURCE / test.parent
    return any((folder / f"{name}.py").exists() or (folder / name).is_dir() for name in names)


def test_every_unit_test_mirrors_a_module() -> None:
    unit = ROOT / "tests" / "unit"
    tests = [path.relative_to(unit) for path in unit.rglob("test_*.py")]
    assert tests
    assert [str(test) for test in tests if not mirrors_a_module(test)] == []


def test_the_floors_hold() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Contracts: [1-9]\d* kept, 0 broken", done.stdout)
