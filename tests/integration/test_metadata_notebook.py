"""``examples/metadata.ipynb`` runs from its first cell to its last, and answers its four questions."""

import re
from pathlib import Path
from typing import Any

from support.pages.notebooks import run_cells

NOTEBOOK = Path(__file__).parents[2] / "examples" / "metadata.ipynb"


def test_the_notebook_answers_its_questions() -> None:
    scope: dict[str, Any] = {}
    try:
        shown = "\n".join(each for each in run_cells(NOTEBOOK, scope) if each is not None)
    finally:
        scope["broker"].stop()  # again, if the last cell was reached
    for wanted in ("flights", "planes", "a month", "reports", "lag_seconds", "SUCCEEDED", "ObjectsDestroyed"):
        assert wanted in shown, wanted
    assert not re.search(r"<[\w.]+ object at 0x", shown)
    before, after = (scope["shape"](scope[name])["objects"].item() for name in ("before", "after"))
    assert before >= 20 > 5 >= after, "the compaction has merged the objects of the rounds"
    assert scope["ranges"]["bytes"].sum() > 0 and sum(each.known for each in scope["estimate"].rows) > 30
