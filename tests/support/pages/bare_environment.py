"""A shell as on a machine that has nothing of ours: no Java on the path, an empty home, the commands of the virtual
environment as after ``. .venv/bin/activate``."""

import os
import subprocess
import sys
from pathlib import Path

JAVA = ("java", "javac", "jshell", "jar", "keytool", "jcmd")


class BareEnvironment:
    """``folder`` gets a ``bin`` with links to the programs of the machine, without Java's, and an empty ``home``."""

    def __init__(self, folder: Path) -> None:
        self._programs, self._home = folder / "bin", folder / "home"
        self._programs.mkdir(parents=True)
        self._home.mkdir()
        for place in ("/usr/bin", "/bin"):
            for program in Path(place).iterdir():
                if not program.name.startswith(JAVA) and not (self._programs / program.name).is_symlink():
                    (self._programs / program.name).symlink_to(program)

    def variables(self, **more: str) -> dict[str, str]:
        """Returns all variables that are set, except for PYTHONPATH, with which a test names the source that it
        tests."""
        kept = {name: os.environ[name] for name in ("PYTHONPATH", "TMPDIR", "LANG") if name in os.environ}
        path = f"{Path(sys.executable).parent}{os.pathsep}{self._programs}"
        return {**kept, "PATH": path, "HOME": str(self._home), "SPARK_LOCAL_IP": "127.0.0.1", **more}

    def run(
        self, line: str, folder: Path, seconds_max: float = 250, **more: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-o", "pipefail", "-c", line], cwd=folder, env=self.variables(**more), capture_output=True,
            text=True, check=False, timeout=seconds_max,
        )  # fmt: skip

    def outputs(self, lines: str, folder: Path, **more: str) -> list[str]:
        """Runs a line after the other, each of which has to succeed; returns what each has printed."""
        said = []
        for line in lines.splitlines():
            done = self.run(line, folder, **more)
            assert done.returncode == 0, (line, done)
            said.append(done.stdout)
        return said
