"""Ctrl-C while the program is being loaded."""

import subprocess
import sys

import pytest

from siltstone.cli import failures, program


def interrupt(_: str) -> None:
    raise KeyboardInterrupt


def test_ctrl_c_while_loading_is_one_line(monkeypatch, capsys) -> None:
    monkeypatch.setattr(program, "import_module", interrupt)
    with pytest.raises(SystemExit) as ended:
        program.main()
    assert ended.value.code == program.INTERRUPTED == failures.INTERRUPTED
    assert capsys.readouterr().err == "siltstone: interrupted\n"


def test_what_hears_the_interrupt_loads_nothing_that_takes_time() -> None:
    seen = "import sys; import siltstone.cli.program; print({'click', 'msgspec', 'rich', 'asyncio'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", seen], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "set()\n"


def test_it_is_the_program() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from siltstone.cli.program import main; main()", "--version"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert done.stdout.startswith("siltstone ")


def test_python_dash_m_siltstone_is_the_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "siltstone", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("siltstone")
