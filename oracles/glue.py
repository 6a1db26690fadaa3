"""The Glue catalog of AWS, as moto imitates it: a server in a process of its own, and boto3, which pyiceberg needs.

pip puts both into ``.build``, once: nothing else here needs them.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.error import URLError
from urllib.request import urlopen

from oracles.pip_packages import installed

VERSION = "5.2.5"
PACKAGES = (f"moto[glue,server]=={VERSION}", "boto3==1.44.5", "botocore==1.44.5")
START_SECONDS_MAX = 60


@contextmanager
def running_glue(port: int) -> Iterator[str]:
    """Yields the URL of the server, with boto3 on ``sys.path``. Raises JavaArtifactsUnavailable where pip has no
    network."""
    packages = str(installed(f"moto-{VERSION}", PACKAGES))
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
