import subprocess
import sys
from importlib.machinery import ModuleSpec

import pytest

from siltstone.maintenance.key_compaction.kernels import choosing, compiled, plain

WITHOUT_NUMBA = """
import sys
import siltstone.cli.program, siltstone.server.components, siltstone.maintenance.key_compaction.kind
import siltstone.maintenance.key_compaction.task
found = sorted(name for name in sys.modules if name.partition(".")[0] in ("numba", "llvmlite"))
assert not found, found
"""


def test_compiled_ones_where_numba_is_installed() -> None:
    assert choosing.best_kernels() is compiled


def test_plain_ones_where_it_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_name: str) -> ModuleSpec | None:
        return None

    monkeypatch.setattr(choosing, "find_spec", nothing)
    assert choosing.best_kernels.__wrapped__() is plain


def test_nothing_imports_numba_before_a_task_runs() -> None:
    """Neither a broker nor the driver of the job: it takes half a second and 60 MB."""
    subprocess.run([sys.executable, "-c", WITHOUT_NUMBA], check=True)
