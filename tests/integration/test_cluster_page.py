"""docs/cluster.md is true: its brokers share PostgreSQL and a bucket of SeaweedFS, and no folder; one is killed."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from support.broker.cluster_clients import SECONDS_MAX, Sending, made_topic, read_all, until
from support.engine.s3_server import BUCKET, ENVIRONMENT, S3Server
from support.metadata.postgres_server import PostgresServer
from support.pages.bare_environment import BareEnvironment
from support.pages.documents import ROOT, blocks
from support.processes.ports import free_port

pytestmark = [
    pytest.mark.s3,
    pytest.mark.postgres,
    pytest.mark.xdist_group("s3-page"),
    pytest.mark.timeout(600),
]

PAGE = ROOT / "docs" / "cluster.md"
(SETTINGS,) = blocks(PAGE, "toml")
SERVE, NODES = blocks(PAGE, "sh")
RUN = [SETTINGS, SERVE, NODES]


class Machine:
    """A folder and a port in the place of a machine; ``process`` is the broker that runs there."""

    def __init__(self, folder: Path, settings: str, line: str, bare: BareEnvironment) -> None:
        self.port = free_port()
        (folder / "my-store").mkdir(parents=True)
        (folder / "my-store" / "siltstone.toml").write_text(settings)
        placed = re.sub(r"--listener \S+", f"--listener 127.0.0.1:{self.port}", line)
        placed = re.sub(r"--advertised-listener \S+", f"--advertised-listener 127.0.0.1:{self.port}", placed)
        self.folder = folder
        self.process = subprocess.Popen(
            ["bash", "-c", f"exec {placed}"], cwd=folder, env={**bare.variables(), **ENVIRONMENT},
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        assert f":{self.port} " in self.process.stdout.readline()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def three_machines(folder: Path, settings: str, bare: BareEnvironment) -> Iterator[list[Machine]]:
    with ExitStack() as opened:
        machines = []
        for line in SERVE.splitlines():
            machine = Machine(folder / f"machine-{len(machines) + 1}", settings, line, bare)
            opened.callback(machine.close)
            machine.wait_until_ready()
            machines.append(machine)
        yield machines


@pytest.mark.nightly(tried="killed brokers")
def test_three_brokers_share_no_folder_and_one_that_is_killed_is_failed_over(
    s3_server: S3Server,
    postgres_server: PostgresServer,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    bare = BareEnvironment(tmp_path_factory.mktemp("bare"))
    metadata = postgres_server.tcp_url(postgres_server.new_schema())
    settings = SETTINGS.replace("postgresql://siltstone@db.example:5432/siltstone?schema=flights", metadata)
    settings = settings.replace("http://127.0.0.1:8333", s3_server.endpoint_url)
    settings = settings.replace("s3://siltstone/flights", f"s3://{BUCKET}/cluster-{tmp_path.name}")
    with three_machines(tmp_path, settings, bare) as machines:
        bootstrap = ",".join(f"127.0.0.1:{each.port}" for each in machines)
        made_topic(bootstrap, "flights", 6)
        sending = Sending(bootstrap, "flights", 6)
        until(lambda: sending.answered > 300, "answers")
        machines[1].close()

        def states() -> list[str]:
            listed = bare.run(NODES.strip(), machines[0].folder, **ENVIRONMENT)
            return [line.split("\t")[2] for line in listed.stdout.splitlines()[1:]]

        until(lambda: states() == ["live", "failed over", "live"], "the failover")
        before = sending.acked_counts()
        until(
            lambda: all(sending.acked_counts()[each] > before[each] + 20 for each in before), "answers of all"
        )
        sending.stop()
        for partition, acked in sending.acked.items():
            assert read_all(bootstrap, "flights", partition, len(acked)) == acked
        until(lambda: states() == ["live", "failed over", "live"], "the same states after it")
        for machine in (machines[0], machines[2]):
            machine.process.terminate()
            assert machine.process.wait(SECONDS_MAX) == 0
        assert not any((each.folder / "my-store" / "bucket").exists() for each in machines)
        assert bare.run("siltstone check --store my-store", machines[0].folder, **ENVIRONMENT).returncode == 0
