"""``serve`` turns its options into settings; no broker is started."""

import subprocess
import sys
from pathlib import Path

import pytest

from siltstone.cli import runner_options
from siltstone.cli.runner_options import RunnerChoice
from siltstone.cli.serve import command as module
from siltstone.cli.serve.command import maintenance_command
from siltstone.cli.serve.kept_process import WITH_PARENT, KeptProcess
from siltstone.cli.serve.own_certificate import ClientFile
from siltstone.cli.store_options import StoreChoice
from siltstone.server.network.addresses import ListenerAddress
from siltstone.server.settings.node import NodeSettings
from siltstone.spark.java import JavaNotFound
from support.processes.cli import assert_one_line, run


class Served:
    """``run`` takes the place of the event loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.settings: NodeSettings | None = None
        self.addresses: list[ListenerAddress] = []
        self.levels: list[str] = []
        self.maintenance: list[str] | None = None
        self.keeps_memory = False
        monkeypatch.setattr(module, "serve_one_node", self._serve)
        monkeypatch.setattr(module, "run", lambda *_: None)
        monkeypatch.setattr(module, "kept_heap", self._keep_memory)
        monkeypatch.setattr(module, "log_to_stderr", lambda level, _, node_id: self.levels.append(level))

    def _keep_memory(self) -> None:
        """Changes nothing, because this is the process of the tests."""
        self.keeps_memory = True

    def _serve(
        self,
        settings: NodeSettings,
        addresses: list[ListenerAddress],
        maintenance: KeptProcess | None,
        client_file: ClientFile | None,
        *,
        has_parent: bool,
        together: list[int],
        recover: list[Path],
        reread: object = None,
    ) -> None:
        self.recover, self.client_file = recover, client_file
        self.settings, self.addresses = settings, [*addresses]
        self.maintenance = None if maintenance is None else maintenance._command
        self.has_parent = has_parent

    @property
    def listeners(self) -> list[str]:
        return [
            f"{address} as {address.advertised_host}:{address.advertised_port}" for address in self.addresses
        ]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Served:
    return Served(monkeypatch)


def test_attached_logs_are_named_by_urls_of_one_node(served: Served, tmp_path: Path) -> None:
    assert run("serve", "--store", tmp_path).status == 0
    assert served.recover == []
    named = ("--recover", "file:///mnt/one/node-1", "--recover", "file:///mnt/t%20wo")
    assert run("serve", "--store", tmp_path, *named).status == 0
    assert served.recover == [Path("/mnt/one/node-1"), Path("/mnt/t wo")]
    refused = run("serve", "--store", tmp_path, "--nodes", 2, *named)
    assert_one_line(refused, 2)
    assert "--recover is for one node" in refused.err
    refused = run("serve", "--store", tmp_path, "--recover", "/mnt/one")
    assert_one_line(refused, 2)
    assert "write file:///FOLDER" in refused.err


def test_the_process_of_a_broker_keeps_freed_memory(served: Served, tmp_path: Path) -> None:
    assert run("serve", "--store", tmp_path).status == 0
    assert served.keeps_memory


def test_the_default_listener_is_for_this_machine_alone(served: Served, tmp_path: Path) -> None:
    assert run("serve", "--store", tmp_path).status == 0
    assert served.listeners == ["PLAINTEXT://127.0.0.1:9092 as 127.0.0.1:9092"]
    assert served.levels == ["warning"]


def test_listeners_come_from_the_settings_and_flags_win(served: Served, tmp_path: Path) -> None:
    (tmp_path / "siltstone.toml").write_text(
        'listeners = ["127.0.0.1:1", "EXTERNAL://127.0.0.1:2"]\nadvertised_listeners = "EXTERNAL://there:3"\n'
        'listener_security_protocol_map = ["EXTERNAL:PLAINTEXT"]\n'
    )
    run("serve", "--store", tmp_path)
    assert served.listeners == [
        "PLAINTEXT://127.0.0.1:1 as 127.0.0.1:1",
        "EXTERNAL://127.0.0.1:2 as there:3",
    ]
    run("serve", "--store", tmp_path, "--listener", ":4", "--listener", "EXTERNAL://:5", "--advertised-listener",
        "here:4", "--advertised-listener", "EXTERNAL://here:5")  # fmt: skip
    assert served.listeners == ["PLAINTEXT://:4 as here:4", "EXTERNAL://:5 as here:5"]


def test_a_listener_that_looks_encrypted_is_refused_before_anything_listens(
    served: Served, tmp_path: Path
) -> None:
    outcome = run("serve", "--store", tmp_path, "--listener", "TLS://127.0.0.1:0")
    assert outcome.status == 2
    assert (
        "TLS is not a protocol; the known protocols are PLAINTEXT, SSL, SASL_PLAINTEXT and SASL_SSL"
        in outcome.err
    )
    assert served.addresses == []


def test_a_port_is_given_with_its_host(served: Served, tmp_path: Path) -> None:
    outcome = run("serve", "--store", tmp_path, "--port", "9092")
    assert outcome.status == 2
    assert "No such option '--port'. Write --listener HOST:PORT. See siltstone serve --help" in outcome.err


def test_who_is_sent_to_themselves_is_warned_of(served: Served, tmp_path: Path) -> None:
    misleading = ("--listener", "0.0.0.0:9092", "--advertised-listener", "localhost:9092")
    outcome = run("serve", "--store", tmp_path, *misleading)
    assert outcome.status == 0 and outcome.out == ""
    assert (
        "warning: PLAINTEXT://0.0.0.0:9092 accepts other machines but tells them to connect to localhost"
        in outcome.err
    )
    assert "--advertised-listener PLAINTEXT://HOST:PORT" in outcome.err
    assert run("serve", "--store", tmp_path).err == ""


def test_what_is_logged(served: Served, tmp_path: Path) -> None:
    for option in ("-v", "-vv", "--log-level=error"):
        run("serve", "--store", tmp_path, option)
    assert served.levels == ["info", "debug", "error"]


def test_maintenance_gets_the_options_of_the_broker(served: Served, tmp_path: Path) -> None:
    run("serve", "--store", tmp_path)
    assert served.maintenance is None
    run(
        "serve",
        "--store",
        tmp_path,
        "--with-maintenance",
        "--runner",
        "in-process",
        "-v",
        "--log-format",
        "json",
    )
    assert served.maintenance is not None
    words = " ".join(served.maintenance)
    assert f"--store {tmp_path} " in words and "--runner in-process" in words
    assert words.endswith("--log-level info --log-format json")


@pytest.mark.parametrize(
    "option", [("--runner", "in-process"), ("--master", "local"), ("--conf", "spark.a=b")]
)
def test_a_runner_that_nothing_would_use_is_refused(
    served: Served, tmp_path: Path, option: tuple[str, str]
) -> None:
    outcome = run("serve", "--store", tmp_path, *option)
    assert_one_line(outcome, 2, f"{option[0]} is for maintenance: add --with-maintenance.")
    assert served.settings is None


def test_a_runner_that_cannot_be_started_is_refused_before_the_broker_begins(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise JavaNotFound("Spark needs Java")

    monkeypatch.setattr(runner_options, "find_java", missing)
    outcome = run("serve", "--store", tmp_path, "--with-maintenance")
    assert outcome.status != 0 and "Spark needs Java" in outcome.err
    assert served.settings is None


def test_listeners_that_cannot_be_are_one_line(tmp_path: Path) -> None:
    assert_one_line(
        run("serve", "--store", tmp_path, "--listener", "0.0.0.0:9092"), 2, "clients cannot connect to"
    )
    assert_one_line(run("serve", "--store", tmp_path, "--listener", "nonsense"), 2, "is not a listener")
    assert list(tmp_path.iterdir()) == []


HEAVY = ("numpy", "pyspark", "py4j", "rich", "boto3", "botocore", "pyarrow", "pandas")
LOADED = f"""
import asyncio, sys
from pathlib import Path
from siltstone.cli.serve import command
from siltstone.server.kafka_node import running_kafka_node
from siltstone.server.network.addresses import parse_addresses
from siltstone.server.settings.node import load_node_settings

async def main():
    async with running_kafka_node(load_node_settings(Path(sys.argv[1])), parse_addresses(["127.0.0.1:0"])):
        print(sorted(set({HEAVY!r}) & set(sys.modules)))

asyncio.run(main())
"""


def test_a_start_loads_nothing_heavy(tmp_path: Path) -> None:
    """Half of the time of a start is spent on imports. numpy is imported with the first large frame, and the library
    for tables only at a terminal."""
    command = [sys.executable, "-c", LOADED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("admin", ["off", "127.0.0.1:2"])
def test_the_process_gets_the_options_of_the_broker_and_its_own_admin_listeners(admin: str) -> None:
    choice = StoreChoice(Path("s"), Path("c.toml"), {"buckets.0": "s3://b", "admin.listeners": "127.0.0.1:1"})
    runner = RunnerChoice("spark", "spark://host:7077", {"spark.executor.memory": "4g"})
    command = maintenance_command(choice, runner, admin, ("--log-level", "info", "--log-format", "json"))
    assert command[0] == sys.executable
    assert command[3:] == [
        "maintain", "serve", WITH_PARENT, "--store", "s", "--config", "c.toml", "--set", "buckets.0=s3://b",
        "--set", f"admin.listeners={admin}", "--runner", "spark", "--master", "spark://host:7077",
        "--conf", "spark.executor.memory=4g", "--log-level", "info", "--log-format", "json",
    ]  # fmt: skip
