"""The Glue catalog of AWS, as moto imitates it: a server in a process of its own, and boto3, which pyiceberg needs.

pip puts both into ``.build``, once: nothing else here needs them.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from oracles.java_artifacts import JARS, JavaArtifactsUnavailable

VERSION = "5.2.5"
PACKAGES = (f"moto[glue,server]=={VERSION}", "boto3==1.44.5", "botocore==1.44.5")
FOLDER = JARS.parent / f"moto-{VERSION}"
INSTALL_SECONDS_MAX = 600
START_SECONDS_MAX = 60


@contextmanager
def running_glue(port: int) -> Iterator[str]:
    """Yields the URL of the server, with boto3 on ``sys.path``. Raises JavaArtifactsUnavailable where pip has no
    network."""
    packages = str(_installed())
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    environment = {**os.environ, "PYTHONPATH": packages}
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        sys.path.append(packages)
        try:
            _wait(url, process)
            yield url
        finally:
            sys.path.remove(packages)
            process.terminate()
            process.wait()


def _wait(url: str, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while True:
        try:
            urlopen(url, timeout=5).close()
        except (URLError, OSError):
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.2)
        else:
            return


def _installed() -> Path:
    JARS.mkdir(parents=True, exist_ok=True)
    with (JARS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (FOLDER / "moto").is_dir():
            _install()
    return FOLDER


def _install() -> None:
    filling = Path(tempfile.mkdtemp(dir=JARS, prefix="filling-"))
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(filling), *PACKAGES]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX, check=False
        )
        if done.returncode:
            raise JavaArtifactsUnavailable(f"pip does not get {PACKAGES[0]}: {done.stderr.strip()[-300:]}")
        shutil.rmtree(FOLDER, ignore_errors=True)
        filling.rename(FOLDER)
    finally:
        shutil.rmtree(filling, ignore_errors=True)
