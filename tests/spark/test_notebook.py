"""The notebook of ``examples`` runs from its first cell to its last: by day without the cells that need Spark, at night
on the Spark of all tests here, and in a kernel of Jupyter's with a Spark of its own."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from support.pages.notebooks import code_cells, run_cells
from support.processes.tried import RecordTried

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "flights.ipynb"


OF_SPARK = "spark"
"""The tag of the cells that need a Spark."""


def shown_by(scope: dict[str, Any], without_tag: str = "") -> str:
    try:
        return "\n".join(each for each in run_cells(NOTEBOOK, scope, without_tag) if each is not None)
    finally:
        scope["broker"].stop()  # again, if the last cell was reached


def test_the_notebook_runs_without_spark_but_for_the_stream() -> None:
    """Maintenance gets None for a Spark, and runs in this process."""
    text = shown_by({"spark": None}, OF_SPARK)
    for wanted in ("scan of 4 partitions: 2,000 offsets", "table-export", ">flights</td>", ">2,000</td>"):
        assert wanted in text, wanted
    assert not re.search(r"<[\w.]+ object at 0x", text)


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_notebook_runs_and_shows_tables_instead_of_objects(spark: Any, record_tried: RecordTried) -> None:
    text = shown_by({})
    assert re.search(r"scan flights, \d+ objects?, .*<td>struct&lt;carrier:string", text, re.DOTALL)
    for wanted in ("scan of 4 partitions: 2,000 offsets", "table-export", ">flights</td>", "2,500"):
        assert wanted in text, wanted
    assert not re.search(r"<[\w.]+ object at 0x", text)
    assert spark.range(2).count() == 2, "the Spark of the other tests runs on"
    record_tried("cells of a notebook", len(code_cells(NOTEBOOK)))


@pytest.mark.nightly
@pytest.mark.spark
@pytest.mark.timeout(900)
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
