"""Each extra by itself, in an environment that has nothing else: our own environment has every package, so it cannot
see that one is missing. A package that is missing changes more than an import: in a worker of Spark without protobuf
there is an empty ``google.protobuf``, of a jar.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from support.pages.bare_environment import BareEnvironment
from support.processes.tried import RecordTried

ROOT = Path(__file__).parents[2]

FILL = """
import subprocess
import siltstone

with siltstone.Broker("store", settings={"broker.num_partitions": "2"}) as broker:
    def run(*words, **given):
        subprocess.run(["siltstone", *words, "--bootstrap", broker.bootstrap_servers], check=True, **given)

    run("topics", "create", "t", "--partitions", "2", "-c", "siltstone.table.format=FORMAT")
    run("produce", "t", input=500 * (b'{"n": 1}' + bytes([10])))
    broker.flush()
"""

EXPORTED = "siltstone tables --store store --json | grep '\"rows\": *500'"
ON_SPARK = f"siltstone maintain run --store store --kind table-export --master 'local[1]' && {EXPORTED}"
HERE = f"siltstone maintain run --store store --kind table-export --runner in-process && {EXPORTED}"
SCAN = (
    """python -c 'import siltstone; assert siltstone.scan("t", store="store").to_arrow().num_rows == 500'"""
)

CASES = {
    "nothing": (
        "",
        "",
        "siltstone check --store store && siltstone maintain run --store store --runner in-process",
    ),
    "arrow": ("arrow", "", SCAN),
    "sql": ("sql", "", "siltstone sql 'select count(*) as n from t' --store store --json | grep 500"),
    "parquet": ("arrow", "parquet", HERE),
    "delta": ("delta", "delta", HERE),
    "iceberg on spark": ("spark,java,tables", "iceberg", ON_SPARK),
    "delta on spark": ("spark,java,delta", "delta", ON_SPARK),
}
"""Name → the extras, the format of the table, and what has to work with them."""


@pytest.mark.nightly
@pytest.mark.xdist_group("extras")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", CASES)
def test_an_extra_has_all_that_it_needs(name: str, tmp_path: Path, record_tried: RecordTried) -> None:
    extras, table_format, command = CASES[name]
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    wanted = f"{ROOT}[{extras}]" if extras else str(ROOT)
    subprocess.run(
        [
            tmp_path / "venv/bin/pip",
            "install",
            "--quiet",
            "-c",
            ROOT / "requirements/constraints.txt",
            wanted,
        ],
        check=True,
    )
    environment = BareEnvironment(tmp_path / "bare")
    variables = environment.variables()
    variables["PATH"] = f"{tmp_path / 'venv/bin'}:{variables['PATH'].partition(':')[2]}"
    variables.pop("PYTHONPATH", None)
    script = f"python - <<'PY'\n{FILL.replace('FORMAT', table_format)}\nPY\n{command}\n"
    ran = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script], cwd=tmp_path, env=variables, capture_output=True, text=True,
        check=False, timeout=600,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    record_tried("environments", 1)
