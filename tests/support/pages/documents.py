"""Reads a Markdown page: its fenced blocks and its links."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
COLUMNS_MAX = 140


def blocks(page: Path, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


FENCED = re.compile(
    r"^(?:<!-- not run: (?P<reason>.*?) -->\n)?```\w*\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL
)
"""A fenced block, and the reason why no test runs it, which a comment before it gives."""


def fenced(page: Path) -> list[tuple[str, str | None]]:
    """(text, reason why it is not run) of each fenced block."""
    return [(found["text"], found["reason"]) for found in FENCED.finditer(page.read_text())]


def links(page: Path) -> list[tuple[str, str]]:
    """(file, place in it) of each link that does not leave the repository."""
    found = re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text())
    return [(file, place) for file, place in found if "://" not in file]


def places(page: Path) -> set[str]:
    """Returns what a link may name behind its #."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def too_wide(page: Path) -> list[str]:
    """Lines of prose: tables, what is generated from the code and fenced blocks are as wide as they are."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!-- ([^:>]*): made by .*?<!-- end of \1 -->", "", text, flags=re.DOTALL)
    return [line for line in text.splitlines() if len(line) > COLUMNS_MAX and not line.startswith("|")]
