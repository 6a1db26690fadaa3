"""Notebooks are kept without outputs: they hold no path of the machine that ran them, and a change can be read."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.name)
def test_a_notebook_has_no_outputs_no_paths_and_is_linked(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None), "clear all outputs, then save"
    assert not re.search(r"/(home|Users|root|tmp|work)/", text)
    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    for page in ("README.md", "docs/quick-start.md"):
        assert f"examples/{file.name}" in (ROOT / page).read_text(encoding="utf-8"), f"{page} has no link"


def test_there_is_one() -> None:
    assert NOTEBOOKS
