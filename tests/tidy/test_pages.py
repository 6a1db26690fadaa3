"""Every page: its links lead somewhere, the README leads to it, its lines can be read beside the code."""

from pathlib import Path

import pytest

from support.pages.documents import PAGES, ROOT, links, places, too_wide

WIDE = {"docs/conformance.md"}
"""Written by ``make conformance``."""


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for file, place in links(page):
        target = page.parent / file if file else page
        assert target.exists(), file
        assert not place or place in places(target), f"{file}#{place}"


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name == "docs"], ids=name)
def test_the_readme_leads_to_every_page(page: Path) -> None:
    assert name(page) in {file for file, _ in links(ROOT / "README.md")}


@pytest.mark.parametrize("page", [page for page in PAGES if name(page) not in WIDE], ids=name)
def test_lines_are_not_too_wide(page: Path) -> None:
    assert too_wide(page) == []


def test_a_link_to_nowhere_would_be_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A heading, and more\n[a](b.md) [c](#a-heading-and-more) [d](https://x.y/z)\n" + "x" * 141
    )
    assert links(page) == [("b.md", ""), ("", "a-heading-and-more")]
    assert places(page) == {"a-heading-and-more"}
    assert too_wide(page) == ["x" * 141]
