import subprocess
import sys

import pytest
from pyspark import cloudpickle

from siltstone.model.version import VERSION
from siltstone.spark.worker_check import (
    WORKERS_ASKED_MAX,
    Answer,
    needed_modules,
    question_for,
    unfit_words,
    why_unfit,
    workers_asked,
)

FIT: Answer = ("host-1", "/venv/bin/python", VERSION, ())


def answer(*modules: str) -> Answer:
    (only,) = question_for(modules)(iter([0]))
    return only


def test_a_worker_that_can_import_everything_is_fit() -> None:
    found = answer(*needed_modules())
    assert found[1:] == (sys.executable, VERSION, ())
    assert why_unfit([found, found]) is None


def test_modules_that_cannot_be_imported_are_named_with_the_reason() -> None:
    *_, version, missing = answer("msgspec", "no_such_module")
    assert version == VERSION
    assert missing == ("no_such_module (ModuleNotFoundError: No module named 'no_such_module')",)


def test_the_question_reaches_a_worker_that_lacks_this_package() -> None:
    sent = cloudpickle.dumps(question_for(["msgspec", "siltstone"]))
    worker = """
import pickle, sys
for name in [name for name in sys.modules if name.startswith("siltstone")]:
    del sys.modules[name]
sys.modules["siltstone"] = None
(answer,) = pickle.load(sys.stdin.buffer)(iter([0]))
print(answer[2:])
"""
    done = subprocess.run(
        [sys.executable, "-c", worker], input=sent, capture_output=True, check=True, timeout=60
    )
    assert b"siltstone (ModuleNotFoundError: " in done.stdout, done


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (
            ("host-2", "/usr/bin/python3", "", ("siltstone (ModuleNotFoundError: no)", "numpy (x: y)")),
            f"/usr/bin/python3 on host-2 cannot import siltstone: install siltstone {VERSION} with its packages",
        ),
        (
            ("host-2", "/usr/bin/python3", VERSION, ("numpy (ImportError: broken)",)),
            "/usr/bin/python3 on host-2 cannot import numpy (ImportError: broken): install what siltstone depends on",
        ),
        (
            ("host-2", "/usr/bin/python3", VERSION, ("botocore (ModuleNotFoundError: no)",)),
            "cannot import botocore (ModuleNotFoundError: no): pip install 'siltstone[s3]' in that Python",
        ),
        (
            ("host-2", "/usr/bin/python3", "0.0.9", ()),
            f"has siltstone 0.0.9, and the driver {VERSION}: install the same version",
        ),
    ],
)
def test_what_is_wrong_with_a_worker_and_what_to_do(given: Answer, wanted: str) -> None:
    words = why_unfit([FIT, given])
    assert words is not None and wanted in words and "\n" not in words
    assert "PYSPARK_PYTHON" in words


def test_several_workers_with_one_fault_are_one_line() -> None:
    missing = ("siltstone (ModuleNotFoundError: no)",)
    words = why_unfit([(f"host-{number}", "/usr/bin/python3", "", missing) for number in (1, 1, 2, 3)])
    assert words is not None and "/usr/bin/python3 on host-1 and 2 others cannot import" in words


def test_so_many_workers_are_asked() -> None:
    assert [workers_asked(slots) for slots in (0, 1, 8, 10_000)] == [1, 1, 8, WORKERS_ASKED_MAX]


def test_s3_is_needed_only_by_a_driver_that_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "botocore", raising=False)
    assert "botocore" not in needed_modules()
    monkeypatch.setitem(sys.modules, "botocore", sys)
    assert "botocore" in needed_modules()


@pytest.mark.parametrize(
    ("cause", "wanted"),
    [
        (
            ': java.io.IOException: Cannot run program "/nowhere/python3": error=2, No such file or directory',
            "set PYSPARK_PYTHON to the Python of the workers",
        ),
        (
            "RuntimeError: Python in worker has different version 3.10 than that in driver 3.11, PySpark cannot run",
            "they have Python 3.10, and the driver 3.11: set PYSPARK_PYTHON to a Python 3.11 on the workers",
        ),
        (
            "PySparkRuntimeError: [X] Python in worker has different version: (3, 10) than that in driver: (3, 11)",
            "they have Python 3.10, and the driver 3.11: set PYSPARK_PYTHON to a Python 3.11 on the workers",
        ),
        ("ImportError: cannot import name 'x' from 'numpy'", "cannot import name 'x' from 'numpy': install"),
    ],
)
def test_causes_of_which_no_unit_is_to_blame(cause: str, wanted: str) -> None:
    words = unfit_words(Exception(cause))
    assert words is not None and wanted in words


@pytest.mark.parametrize(
    "cause",
    [
        "ValueError: at 4096 is damaged",
        "TaskFailed: task failed: ValueError: a key says ModuleNotFoundError: No module named 'x'",
        ": org.apache.spark.SparkException: Job aborted: Python worker exited unexpectedly (crashed)",
    ],
)
def test_causes_for_which_a_unit_may_be_to_blame(cause: str) -> None:
    assert unfit_words(Exception(cause)) is None
