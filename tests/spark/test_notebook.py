"""The notebook of ``examples`` runs from its first cell to its last: on the Spark of all tests here, and at night in a
kernel of Jupyter's with a Spark of its own."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.pages.notebooks import run_cells
from support.processes.tried import RecordTried

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "flights.ipynb"


def test_the_notebook_runs_and_shows_tables_instead_of_objects(spark: Any) -> None:
    scope: dict[str, Any] = {}
    try:
        shown = [each for each in run_cells(NOTEBOOK, scope) if each is not None]
    finally:
        scope["broker"].stop()  # again, if the last cell was reached
    text = "\n".join(shown)
    assert re.search(r"scan flights, \d+ objects?, .*<td>struct&lt;carrier:string", text, re.DOTALL)
    for wanted in ("scan of 4 partitions: 2,000 offsets", "table-export", ">flights</td>", "2,500"):
        assert wanted in text, wanted
    assert not re.search(r"<[\w.]+ object at 0x", text)
    assert spark.range(2).count() == 2, "the Spark of the other tests runs on"


@pytest.mark.nightly
def test_the_notebook_runs_in_jupyter(tmp_path: Path, record_tried: RecordTried) -> None:
    program = Path(sys.executable).with_name("jupyter-execute")
    executed = tmp_path / "executed.ipynb"
    environment = {**os.environ, "JUPYTER_RUNTIME_DIR": str(tmp_path), "IPYTHONDIR": str(tmp_path)}
    command = [str(program), "--timeout=600", f"--output={executed}", str(NOTEBOOK)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2_000:]
    cells = [cell for cell in json.loads(executed.read_text())["cells"] if cell["cell_type"] == "code"]
    assert all(cell["execution_count"] for cell in cells)
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert not [each for each in outputs if each["output_type"] == "error"]
    assert sum("text/html" in each.get("data", {}) for each in outputs) >= 7
    record_tried("cells of a notebook in Jupyter", len(cells))
