"""ARCHITECTURE.md is one page, and the lives follow it. They name files and names of the source that exist, every
package, and every floor as the import contracts have it."""

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from support.pages.documents import ROOT, links

SOURCE = ROOT / "src" / "siltstone"
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
TEXT = ARCHITECTURE.read_text()
INDEX = ROOT / "docs" / "lives" / "README.md"
LIVES = sorted(set(INDEX.parent.glob("*.md")) - {INDEX})
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
NAMING = [ARCHITECTURE, ROOT / "docs" / "formats.md", INDEX, *LIVES]
"""Pages for contributors, which name files of the source."""

WORDS_MIN, WORDS_MAX = 1_800, 2_300
"""Ten minutes of reading."""

STRAIGHT, OFF, WHY = "\n## The straight path\n", "\n## Off the path\n", "\n## Why\n"


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def named(pattern: str) -> list[tuple[str, str]]:
    """Returns (page, what it names in backticks) for what the pattern finds, each once."""
    found = {(name(page), found) for page in NAMING for found in re.findall(pattern, page.read_text())}
    return sorted(found)


def is_file(file: str) -> bool:
    return (ROOT / file).is_file() or any(SOURCE.rglob(file))


@cache
def identifiers() -> frozenset[str]:
    return frozenset(
        word
        for path in SOURCE.rglob("*.py")
        for word in re.findall(r"\w+", f"{path.relative_to(SOURCE)} {path.read_text()}")
    )


# -- the page -----------------------------------------------------------------------------------------------


def test_the_page_is_read_in_ten_minutes() -> None:
    words = [word for word in TEXT.split() if re.search(r"\w", word)]
    assert WORDS_MIN <= len(words) <= WORDS_MAX, "what is longer belongs to a page of docs/lives"


def test_each_decision_of_the_page_has_its_alternative_and_its_record() -> None:
    section = TEXT.partition("## Five decisions\n")[2].partition("\n## ")[0]
    decisions = re.split(r"^\*\*\d\. ", section, flags=re.MULTILINE)[1:]
    assert len(decisions) == 5
    for decision in decisions:
        assert "*Rejected:*" in decision and re.search(r"\(docs/decisions/\d{4}-", decision), decision


def test_the_words_that_an_append_needs_are_taught_before_they_are_used() -> None:
    taught = re.findall(r"^\| \*([\w ]+)\* \|", TEXT, re.MULTILINE)
    assert len(taught) == 12
    sentence = TEXT.partition("One append in these words: ")[2].partition("\n\n")[0]
    told = set(re.findall(r"\*\*(\w+(?: \w+)?)\*\*", sentence))
    stems = {word.removesuffix("ed").removesuffix("s") for word in told}
    assert set(taught) == stems


@pytest.mark.parametrize(("page", "file"), named(r"`([\w/]+\.py)`"))
def test_every_file_named_exists(page: str, file: str) -> None:
    assert is_file(file), f"{page} names {file}"


@pytest.mark.parametrize(("page", "folder"), named(r"`((?:[a-z_]+/)+)`"))
def test_every_folder_named_exists(page: str, folder: str) -> None:
    last = folder.rstrip("/").rpartition("/")[2]
    in_source = any(f"{path}/".endswith(f"/{folder}") for path in SOURCE.rglob(last))
    assert in_source or (ROOT / folder).is_dir(), f"{page} names {folder}"


@pytest.mark.parametrize(
    ("page", "identifier"), named(r"`([A-Za-z_]+\.[a-z_]+|[A-Z][a-z]+[A-Z]\w+|[A-Z_]{6,}|[a-z]+_\w+)`")
)
def test_every_name_of_the_source_exists(page: str, identifier: str) -> None:
    """Classes, functions, constants and methods, as ``Stream.hold``."""
    if not identifier.endswith((".md", ".toml", ".json", ".sqlite")):
        assert set(identifier.split(".")) <= identifiers(), f"{page} names {identifier}"


def test_the_code_map_has_every_package_on_its_floor() -> None:
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \|", TEXT, re.MULTILINE)
    floors = {package: int(floor) for floor, package in rows}
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert set(floors) == packages
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    for floor, layer in enumerate(reversed(layers)):
        for package in layer.split(" | "):
            assert floors[package] == floor, package


def test_every_test_folder_is_told() -> None:
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()} - {"support", "__pycache__"}
    assert {folder for folder in folders if f"| `tests/{folder}` |" not in contributing} == set()


# -- the lives ----------------------------------------------------------------------------------------------


def test_the_index_leads_to_every_life_and_the_page_to_the_index() -> None:
    assert len(LIVES) >= 20
    assert {path.name for path in LIVES} <= {file for file, _ in links(INDEX)}
    assert name(INDEX) in {file for file, _ in links(ARCHITECTURE)}


@pytest.mark.parametrize("page", LIVES, ids=lambda page: page.stem)
def test_a_life_has_the_straight_path_first_and_ends_with_its_decisions(page: Path) -> None:
    text = page.read_text()
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", page.stem)
    assert text.startswith("# The life of ")
    assert 0 < text.find(STRAIGHT) < text.find(OFF) < text.find(WHY)
    end = text.rpartition("\nDecision")[2]
    assert re.search(r"\]\(\.\./decisions/\d{4}-[\w-]+\.md\)", end), "ends with a link to its decision record"


def test_named_promises_are_kept_and_shown_where_the_index_says() -> None:
    rows = [line for line in INDEX.read_text().splitlines() if line.startswith("| ") and "`" in line]
    paths = [path for row in rows for path in re.findall(r"`([a-z_]+/[a-z_/.]+)`", row)]
    assert len(paths) >= 8
    assert [path for path in paths if not (ROOT / path).exists() and not (SOURCE / path).exists()] == []


def test_a_file_that_is_gone_would_be_found() -> None:
    assert is_file("stream_engine/engine.py") and is_file("tests/support/pages/documents.py")
    assert not is_file("maintenance/committing.py") and not is_file("no_such.py")
    assert "CompactionRound" in identifiers() and "RelocationWave" not in identifiers()


# -- decisions ----------------------------------------------------------------------------------------------


def test_decisions_are_numbered_without_gap_or_repetition() -> None:
    numbers = [int(path.name[:4]) for path in DECISIONS]
    assert numbers == list(range(1, len(numbers) + 1))
    for path, number in zip(DECISIONS, numbers, strict=True):
        assert re.match(rf"# 0*{number}[.:]? ", path.read_text()), path.name
