"""What comments cite can be looked up: a tag on the page of scenarios or of rules, a file in the repository."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("source")  # which one worker reads, once

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "siltstone"
TESTS = ROOT / "tests"
NAMES = {"S3", "LZ4"}
"""Written as tags are, and none."""

TAG = re.compile(r"(?<![\w.#%/\-])[A-Z]{1,2}\d{1,3}(?!\w|\.\w)")
NUMBERED = re.compile(r"\b(item|rule)s? (\d+(?:(?:, | and | to |, and )\d+)*)", re.IGNORECASE)
NUMBERED_NAME = re.compile(r"(?<=_)(item|rule)s?((?:_(?:and_|to_)?\d+)+)(?=_|$)")

NOT_HERE = {
    "a folder or a document that is not here": re.compile(
        r"\breference/|[\[(]reference,|\b(?:DESIGN|STYLE)\b"
    ),
    "a section by its number": re.compile(r"\bsections? \d"),
    "an issue of nobody knows what": re.compile(r"(?<![\w&])#\d{2,}"),
}
ISSUES = re.compile(r"\b[A-Z]\w+ #\d+(?:(?:, | and )#\d+)*")
"""Of a project that is named: ``AutoMQ #1055, #1056``."""


# -- what is defined ----------------------------------------------------------------------------------------


@cache
def defined() -> frozenset[str]:
    scenarios, rules = ((ROOT / "docs" / name).read_text() for name in ("scenarios.md", "rules.md"))
    tags = re.findall(r"^\| ([A-Z]{1,2}\d+|item \d+) \| \S", scenarios, re.MULTILINE)
    return frozenset(tags) | {f"rule {n}" for n in re.findall(r"^\| (\d+) \| \w", rules, re.MULTILINE)}


def families() -> set[str]:
    return {tag.rstrip("0123456789") for tag in defined() if " " not in tag}


# -- what is cited ------------------------------------------------------------------------------------------


@cache
def prose(text: str) -> tuple[str, ...]:
    """Comments, and strings that have a space in them; each in one line."""
    return tuple(_prose(text))


def _prose(text: str) -> Iterator[str]:
    comment, row = "", -1
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            said = re.sub(r"noqa.*|type: ignore.*|fmt: \w+|pragma: .*", "", token.string.lstrip("# "))
            comment, row = (f"{comment} {said}" if token.start[0] == row + 1 else said), token.start[0]
            yield comment
        elif tokenize.tok_name[token.type] in ("STRING", "FSTRING_MIDDLE") and " " in token.string:
            yield " ".join(token.string.split())


@cache
def said_of(text: str) -> tuple[str, ...]:
    """Comments and docstrings alone: strings of tests are data."""
    return tuple(_said_of(text))


def _said_of(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield " ".join(node.value.value.split())
    comments = (line.partition("# ")[2] for line in text.splitlines() if line.lstrip().startswith("# "))
    yield from comments


def cited(said: str) -> set[str]:
    """``items 1, 2 and 10`` are three, of ``8 to 11`` the first and the last."""
    numbered = {
        f"{match[1].lower()} {int(number)}"
        for match in NUMBERED.finditer(said)
        for number in re.findall(r"\d+", match[2])
    }
    return numbered | {tag for tag in TAG.findall(said) if tag not in NAMES}


def cited_by_name(name: str) -> set[str]:
    """``test_items_1_and_2_…``, ``test_gc2_gc19_…``."""
    numbered = {
        f"{match[1]} {int(number)}"
        for match in NUMBERED_NAME.finditer(name)
        for number in re.findall(r"\d+", match[2])
    }
    for match in re.finditer(r"(?<=_)([a-z]{1,2})(\d{1,2})(?=_)", name):
        if match[1].upper() in families():
            numbered.add(match[1].upper() + match[2])
    return numbered


def not_here(said: str) -> set[str]:
    """What a stranger would look for in vain."""
    files = re.findall(r"[\w./\-]*\w\.md\b", said)
    gone = {file for file in files if not (ROOT / file).exists()}
    without = ISSUES.sub("", said)
    return gone | {what for what, pattern in NOT_HERE.items() if pattern.search(without)}


# -- the checks ---------------------------------------------------------------------------------------------


@cache
def texts(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(ROOT)): path.read_text() for path in sorted(folder.rglob("*.py"))}


def test_every_tag_of_the_source_is_defined() -> None:
    unknown = {
        (name, tag)
        for name, text in texts(SOURCE).items()
        for said in prose(text)
        for tag in cited(said) - defined()
    }
    assert sorted(unknown) == []


def test_no_source_cites_what_is_not_here() -> None:
    found = {
        (name, what)
        for name, text in texts(SOURCE).items()
        for said in prose(text)
        for what in not_here(said)
    }
    assert sorted(found) == []


def test_no_test_cites_what_is_not_here() -> None:
    found = {
        (name, what)
        for name, text in texts(TESTS).items()
        for said in said_of(text)
        for what in not_here(said)
    }
    assert sorted(found) == []


def test_every_tag_in_the_name_of_a_test_is_defined() -> None:
    unknown = {
        (name, test, tag)
        for name, text in texts(TESTS).items()
        for test in re.findall(r"^ *(?:async )?def (test_\w+)", text, re.MULTILINE)
        for tag in cited_by_name(test) - defined()
    }
    assert sorted(unknown) == []


def test_every_tag_that_tests_speak_of_is_defined() -> None:
    """Of the families there are; letters with a number are often data in tests."""
    unknown = {
        (name, tag)
        for name, text in texts(TESTS).items()
        if name != str(Path(__file__).relative_to(ROOT))
        for said in said_of(text)
        for tag in cited(said) - defined()
        if " " in tag or tag.rstrip("0123456789") in families()
    }
    assert sorted(unknown) == []


def test_the_page_defines_whole_families() -> None:
    assert families() == {
        "T", "F", "H", "G", "K", "R", "O", "GC", "N", "M", "SR", "SS", "SW", "OB", "OP", "P", "W", "FO", "B", "TB",
        "ER", "CH", "CI", "DL", "SQ", "TL", "TP", "TX", "TG", "NG", "SA", "SH", "SP", "AC", "QU", "ND", "AU", "AB",
        "RO", "WC",
    }  # fmt: skip
    assert {f"item {number}" for number in range(1, 58)} | {
        f"G{number}" for number in range(1, 36)
    } <= defined()
    assert {f"rule {number}" for number in range(1, 11)} <= defined()
    assert len(defined()) > 150


def test_the_tags_of_a_family_stand_in_order() -> None:
    page = (ROOT / "docs" / "scenarios.md").read_text()
    for section in page.split("\n## ")[1:]:
        rows = re.findall(r"^\| (item |[A-Z]+)(\d+) \|", section, re.MULTILINE)
        for family in {family for family, _ in rows}:
            of_family = [int(number) for name, number in rows if name == family]
            assert of_family == sorted(of_family), family
            assert family == "T" or len(of_family) == len(set(of_family)), family


# -- the finders --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "tags"),
    [
        ("It never copies (T99).", {"T99"}),
        ("see rules G11 to G27; K6", {"G11", "G27", "K6"}),
        ("(GC2, GC999)", {"GC2", "GC999"}),
        ("items 1, 2 and 10; Items 8 to 11", {"item 1", "item 2", "item 10", "item 8", "item 11"}),
        ("(rule 12), rules 3, 5 and 99", {"rule 12", "rule 3", "rule 5", "rule 99"}),
        ("a default [S000, S002]", {"S000", "S002"}),
        ("LZ4 in S3, INT64, KIP-98, KAFKA-18659, a 1.2 GB T-shirt, v4.3.0, x-T1", set()),
    ],
)
def test_a_tag_is_found(said: str, tags: set[str]) -> None:
    assert cited(said) == tags


def test_an_invented_tag_would_be_found() -> None:
    text = '"""Rules (T98; rule 3)."""\n\nFORMAT = "V40"  # K77 and\n# items 3 and\n# 58\n"no (GC99)"  # noqa: S603\n'
    found = {tag for said in prose(text) for tag in cited(said)}
    assert found == {"T98", "rule 3", "K77", "item 3", "item 58", "GC99"}
    assert found - defined() == {"T98", "K77", "item 58", "GC99"}


@pytest.mark.parametrize(
    ("name", "tags"),
    [
        ("test_item_07_a_frame_of_5_bytes", {"item 7"}),
        ("test_items_18_20_23_and_37_through_many_lives", {"item 18", "item 20", "item 23", "item 37"}),
        ("test_rule_4_of_t25_and_gc99_is_kept", {"rule 4", "T25", "GC99"}),
        ("test_gc2_gc19_a_ratio_of_v2_is_not_minor", {"GC2", "GC19"}),
    ],
)
def test_a_tag_in_a_name_is_found(name: str, tags: set[str]) -> None:
    assert cited_by_name(name) == tags


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (
            "see docs/rules.md and ARCHITECTURE.md, AutoMQ #1055, #1056 and BookKeeper #870; section by section",
            set(),
        ),
        ("storage-engine.md section 3.3", {"storage-engine.md", "a section by its number"}),
        ("docs/gone.md", {"docs/gone.md"}),
        ("[reference, 5.2]", {"a folder or a document that is not here"}),
        ("reference/kafka.txt", {"a folder or a document that is not here"}),
        ("(DESIGN rule 4)", {"a folder or a document that is not here"}),
        ("in log order (#3064)", {"an issue of nobody knows what"}),
    ],
)
def test_what_is_not_here_is_found(said: str, found: set[str]) -> None:
    assert not_here(said) == found
