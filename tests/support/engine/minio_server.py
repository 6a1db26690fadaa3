"""MinIO, a real S3 server of other hands than SeaweedFS, for tests at night."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from oracles.go_programs import GoUnavailable, minio_program
from support.engine.s3_server import ENVIRONMENT, S3Server
from support.processes.ports import free_port


@contextmanager
def running_minio() -> Iterator[S3Server]:
    """Skips the test where MinIO cannot be built. The credentials are in this process's environment meanwhile, and in
    its children's."""
    try:
        program = minio_program()
    except GoUnavailable as reason:
        pytest.skip(f"MinIO cannot be built: {reason}")
    port = free_port()
    with (
        pytest.MonkeyPatch.context() as patch,
        tempfile.TemporaryDirectory(prefix="siltstone-minio-") as folder,
    ):
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        patch.setenv("MINIO_ROOT_USER", ENVIRONMENT["AWS_ACCESS_KEY_ID"])
        patch.setenv("MINIO_ROOT_PASSWORD", ENVIRONMENT["AWS_SECRET_ACCESS_KEY"])
        address = f"127.0.0.1:{port}"
        command = [str(program), "server", f"{folder}/data", "--address", address, "--quiet"]
        server = S3Server(Path(folder), command, f"http://{address}")
        try:
            server.start()
            yield server
        finally:
            server.close()
