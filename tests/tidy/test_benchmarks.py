"""Every benchmark can be imported: a name that has moved in the source is found here, and not by the next ``make
bench``."""

from importlib import import_module

import pytest

from benchmarks.__main__ import BENCHMARKS
from support.pages.documents import ROOT

FOLDER = ROOT / "benchmarks"
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in FOLDER.rglob("*.py")
    if path.name not in ("__init__.py", "__main__.py")
)


@pytest.mark.parametrize("module", MODULES)
def test_a_benchmark_can_be_imported(module: str) -> None:
    import_module(module)


def test_there_are_benchmarks() -> None:
    assert len(MODULES) > 30
    assert len(BENCHMARKS) > 15
