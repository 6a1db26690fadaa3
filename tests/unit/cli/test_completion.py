import shutil
import subprocess

import pytest

from siltstone.cli.completion import SHELLS
from support.processes.cli import assert_one_line, run


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_of_each_shell_asks_this_program(shell: str) -> None:
    outcome = run("completion", shell)
    assert outcome.status == 0 and outcome.err == ""
    assert f"_SILTSTONE_COMPLETE={shell}_complete" in outcome.out


def test_bash_can_read_its_script() -> None:
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run(
        [bash, "-c", f"{run('completion', 'bash').out}\ncomplete -p siltstone"],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0 and b"siltstone" in done.stdout, done


def test_another_shell_is_refused_with_those_there_are() -> None:
    assert_one_line(run("completion", "tcsh"), 2, "bash", "zsh", "fish")
