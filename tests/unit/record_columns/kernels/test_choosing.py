import signal
import subprocess
import sys
from importlib.machinery import ModuleSpec

import pytest

from siltstone.record_columns.kernels import choosing, compiled, plain

WITHOUT_NUMBA = """
import sys
import siltstone, siltstone.cli.program, siltstone.server.components, siltstone.maintenance.key_compaction.kind
import siltstone.maintenance.key_compaction.task
found = sorted(name for name in sys.modules if name.partition(".")[0] in ("numba", "llvmlite", "pyarrow"))
assert not found, found
"""


def test_compiled_ones_where_numba_is_installed() -> None:
    assert choosing.best_kernels() is compiled


def test_plain_ones_where_it_is_not_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def nothing(_name: str) -> ModuleSpec | None:
        return None

    monkeypatch.setattr(choosing, "find_spec", nothing)
    assert choosing.best_kernels.__wrapped__() is plain
    assert "numba is not installed" in caplog.text


def test_nothing_imports_numba_or_arrow_before_a_task_runs() -> None:
    """Neither a broker nor the driver of the job: it takes half a second and 60 MB."""
    subprocess.run([sys.executable, "-c", WITHOUT_NUMBA], check=True)


def test_the_kernels_are_compiled_by_another_process() -> None:
    with choosing.compiling_ahead() as process:
        assert process is not None
        assert process.wait(300) == 0


def test_it_ends_with_the_block() -> None:
    with choosing.compiling_ahead() as process:
        assert process is not None
        assert process.poll() is None
    assert process.returncode == -signal.SIGKILL


def test_nothing_is_compiled_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_name: str) -> ModuleSpec | None:
        return None

    monkeypatch.setattr(choosing, "find_spec", nothing)
    with choosing.compiling_ahead() as process:
        assert process is None
