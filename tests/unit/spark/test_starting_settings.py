"""The settings of a Spark session that we start."""

import os
import subprocess
import sys

import pytest

from siltstone.spark.starting import is_local, settings_for, with_retries

CORES = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("master", "told"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", f"local[{CORES},4]"),
        ("local[2,1]", "local[2,1]"),
        ("local-cluster[2,1,1024]", "local-cluster[2,1,1024]"),
        ("spark://127.0.0.1:7077", "spark://127.0.0.1:7077"),
        ("yarn", "yarn"),
    ],
)
def test_a_local_master_gets_retries(master: str, told: str) -> None:
    assert with_retries(master) == told


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*,4]"])
def test_local_masters(master: str) -> None:
    assert is_local(master)
    assert settings_for(master, "a", {})["spark.ui.enabled"] == "false"


@pytest.mark.parametrize(
    "master", ["local-cluster[2,1,1024]", "spark://localhost:7077", "k8s://local", "yarn"]
)
def test_other_masters_keep_their_own_compiler_and_have_no_ui_but_the_callers(master: str) -> None:
    assert not is_local(master)
    settings = settings_for(master, "a", {})
    assert "spark.driver.extraJavaOptions" not in settings
    assert settings["spark.ui.enabled"] == "false"
    assert settings_for(master, "a", {"spark.ui.enabled": "true"})["spark.ui.enabled"] == "true"


def test_a_local_jvm_is_light_unless_it_is_for_data_frames() -> None:
    """Rows of data frames take twice the CPU with the light compiler."""
    options = "spark.driver.extraJavaOptions"
    assert "TieredStopAtLevel=1" in settings_for("local[2]", "a", {})[options]
    assert options not in settings_for("local[2]", "a", {}, for_data_frames=True)
    assert settings_for("local[2]", "a", {options: "-Dmine=1"})[options] == "-Dmine=1"


def test_the_callers_settings_win() -> None:
    settings = settings_for("local", "a", {"spark.ui.enabled": "true", "spark.mine": "1"})
    assert (settings["spark.ui.enabled"], settings["spark.mine"]) == ("true", "1")
    assert settings["spark.app.name"] == "a"


def test_importing_the_package_does_not_import_pyspark() -> None:
    program = (
        "import sys, siltstone.spark.spark_runner, siltstone.spark.starting; "
        "print([name for name in ('pyspark', 'py4j', 'pandas', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
