"""Prose is plain technical English: pages, docstrings, help texts, errors and log lines do without words at which
readers go back, the metadata is one thing, and few sentences have two relative clauses."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from siltstone.cli.main import cli
from support.pages.documents import FENCED, PAGES, ROOT

pytestmark = pytest.mark.xdist_group("source")  # which one worker reads, once

SOURCE = ROOT / "src"
WRITTEN_BY_OTHERS = ("CHANGELOG.md", "docs/decisions/", "docs/conformance.md")
"""A record of what users were told; records of decisions, which stay as they were; a page that a program writes."""

PLURAL = (
    "are have were know say name prove do refuse change keep lack show permit contain count record hold tell list need"
).replace(" ", "|")

AVOIDED = {
    "of which: start a new sentence, or use whose": r"\bof (?:which|whom)\b",
    "those that: name the noun": r"\bthose (?:that|which|who|whose)\b",
    "anew: again": r"\banew\b",
    "begun: started": r"\bbegun\b",
    "go on: continue": r"\b(?:go|goes|went|going|gone) on\b",
    "whoever: name the actor": r"\b(?:whoever|whomever|whosoever)\b",
    "is told: says, returns, reports": r"\b(?:is|are|was|were|been) told\b",
    "the metadata is one thing": (
        rf"\b(?:[Tt]he|[Nn]ewest|[Oo]lder|[Oo]ld|[Tt]his|[Ii]ts|store's) metadata"
        rf"(?: of (?:the|this|a) \w+)? (?:{PLURAL})\b(?!-)"
    ),
}

RELATIVE = re.compile(
    r"\w[`)\"*]*(?:,? (?:whose|who|whom)|, which"
    r"|,? (?:in|of|by|for|on|at|from|to|under|with|without|after) which)\b"
)
ASKS = re.compile(
    r"\b(?:and|or|which|asks?|decides?|decided|judges?|knows?|records?|remembers?|returns?|says?|shows?)"
    r" (?:\w+ )?which\b|: ?which\b"
)
"""A question in a sentence, such as "says which", is no relative clause."""

TWO_RELATIVES_MAX = {"pages": 0, "source": 2}
"""Sentences with two relative pronouns. "That" is not counted, because it is also a conjunction. These ceilings may
only shrink."""


def avoided(said: str) -> list[str]:
    return [word for word, pattern in AVOIDED.items() if re.search(pattern, said)]


def sentences(text: str) -> list[str]:
    """Returns the sentences of a text in one line each, without code in backticks."""
    plain = re.sub(r"``[^`]+``|`[^`]+`", "`…`", " ".join(text.split()))
    return re.split(r"(?<=[.!?;:])\s+", plain)


def two_relatives(said: str) -> bool:
    return len(RELATIVE.findall(ASKS.sub("", said))) >= 2


# -- pages --------------------------------------------------------------------------------------------------


def prose_of(page: Path) -> Iterator[str]:
    """Yields the sentences of paragraphs, list items and cells of tables."""
    text = re.sub(r"\]\([^)]*\)", "]", FENCED.sub("", page.read_text()))
    for part in re.split(r"\n\n|\n(?= *- | *\d+\. )|\n\||(?<! \|) \| ", text):
        yield from sentences(part)


OURS = [page for page in PAGES if not str(page.relative_to(ROOT)).startswith(WRITTEN_BY_OTHERS)]


@pytest.mark.parametrize("page", OURS, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_do_without_these_words(page: Path) -> None:
    assert [(words, said) for said in prose_of(page) if (words := avoided(said))] == []


# -- the source ---------------------------------------------------------------------------------------------


@cache
def said_in_source() -> tuple[tuple[str, str], ...]:
    """Returns (place, sentence) for every text with a space in it: docstrings, help, errors, log lines."""
    return tuple(
        (f"{path.relative_to(SOURCE)}:{node.lineno}", said)
        for path in sorted(SOURCE.rglob("*.py"))
        if "messages" not in path.parts  # written by tools/kafka-messages
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value
        for said in sentences(node.value)
    )


def test_the_source_does_without_these_words() -> None:
    assert [(place, words, said) for place, said in said_in_source() if (words := avoided(said))] == []


def help_of(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    # A command keeps the help option of its first context, for all tests of this process.
    context = click.Context(command, info_name=name, help_option_names=["-h", "--help"])
    yield name, command.get_help(context)
    if isinstance(command, click.Group):
        for part in command.list_commands(context):
            found = command.get_command(context, part)
            assert found is not None
            yield from help_of(found, f"{name} {part}")


def test_help_does_without_these_words() -> None:
    shown = dict(help_of(cli, "siltstone"))
    assert len(shown) > 40
    assert [
        (name, words) for name, text in shown.items() for said in sentences(text) if (words := avoided(said))
    ] == []


def test_few_sentences_have_two_relative_clauses() -> None:
    found = {
        "pages": [said for page in OURS for said in prose_of(page) if two_relatives(said)],
        "source": [(place, said) for place, said in said_in_source() if two_relatives(said)],
    }
    for scope, most in TWO_RELATIVES_MAX.items():
        assert len(found[scope]) <= most, found[scope]
        assert len(found[scope]) == most, f"fewer {scope}: lower the ceiling to {len(found[scope])}"


# -- the finders --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "count"),
    [
        ("Copies, of which two count.", 1),
        ("Yields those that are open.", 1),
        ("The scan begins anew.", 1),
        ("A batch that was begun goes on.", 2),
        ("A file is complete, whoever is interrupted.", 1),
        ("the metadata know it", 1),
        ("the metadata record which nodes failed", 1),
        ("the metadata of the store are there", 1),
        ("a metadata record, the metadata records it, when metadata and log have room", 0),
        ("those of the others; going online; what it was told", 1),
    ],
)
def test_a_word_to_avoid_is_found(said: str, count: int) -> None:
    assert len(avoided(said)) == count


def test_a_sentence_with_two_relative_clauses_is_found() -> None:
    text = "A node, which is dead, has a log whose end is torn. A name, which ``who`` has: which? Says which, which."
    assert [two_relatives(said) for said in sentences(text)] == [True, False, False, False]
