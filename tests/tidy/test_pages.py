"""Every page: its links lead somewhere, the README leads to it, its lines can be read beside the code."""

import re
from pathlib import Path
from pkgutil import resolve_name

import pytest

from siltstone.topic_configs.rows import TABLE
from support.pages.documents import PAGES, ROOT, links, places, too_wide

WIDE = {"docs/conformance.md"}
"""Written by ``make conformance``."""


NO_PYTHON = {"siltstone.toml", "siltstone.listener"}
"""A file, and a setting of clients."""


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


def is_there(python_name: str) -> bool:
    try:
        resolve_name(python_name)
    except (ImportError, AttributeError):
        return False
    return True


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_names_of_python_are_there(page: Path) -> None:
    """Also those of the form "`running_node` is in `siltstone.server.components`"."""
    text = page.read_text()
    named = {name for name in re.findall(r"`(siltstone(?:\.\w+)+)", text) if name not in NO_PYTHON}
    assert [
        name for name in named if not is_there(name) and not any(key.startswith(name) for key in TABLE)
    ] == []
    placed = re.findall(r"`(\w+)`(?: is)? in\s+`(siltstone[\w.]+)`", text)
    assert [pair for pair in placed if not is_there(".".join(reversed(pair)))] == []


def test_a_name_that_is_gone_would_be_found() -> None:
    assert is_there("siltstone.Broker") and is_there("siltstone.server.components.running_node")
    assert not is_there("siltstone.server.running_node") and not is_there("siltstone.no_such_module")


def test_a_link_to_nowhere_would_be_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A heading, and more\n[a](b.md) [c](#a-heading-and-more) [d](https://x.y/z)\n" + "x" * 141
    )
    assert links(page) == [("b.md", ""), ("", "a-heading-and-more")]
    assert places(page) == {"a-heading-and-more"}
    assert too_wide(page) == ["x" * 141]
