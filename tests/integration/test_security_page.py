"""docs/security.md is true: its blocks are run, its settings are read. What each client does is in test_tls."""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

import siltstone
from siltstone.model.access import SecurityProtocol
from siltstone.server.network.listener_settings import CertificateWanted
from siltstone.server.node_listeners import addresses_of
from siltstone.server.settings.node import load_node_settings
from support.broker.broker_process import SILTSTONE
from support.kafka.kafka_oracles import or_skip
from support.pages.bare_environment import BareEnvironment
from support.pages.documents import ROOT, blocks

PAGE = ROOT / "docs" / "security.md"
_, SERVE, COMMANDS, WITH_LOGIN, USERS, AS_ADA, _ = blocks(PAGE, "sh")
SETTINGS, TOKENS = blocks(PAGE, "toml")
CLIENTS = blocks(PAGE, "python")
OURS, JAVA = blocks(PAGE, "properties")
RUN = [SERVE, COMMANDS, SETTINGS, TOKENS, WITH_LOGIN, USERS, AS_ADA, *CLIENTS, OURS, JAVA]


def test_tl21_a_broker_with_tls_in_a_few_commands(tmp_path: Path) -> None:
    bare = BareEnvironment(tmp_path / "bare")
    command = f"exec {SERVE.strip()} --listener 127.0.0.1:0"
    with subprocess.Popen(
        ["bash", "-c", command], cwd=tmp_path, env=bare.variables(), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout
            ready = re.search(r"ready at (\S+)", process.stdout.readline())
            assert ready
            done = bare.run(COMMANDS, tmp_path, SILTSTONE_BOOTSTRAP=ready[1])
            assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "hello"), done.stderr
        finally:
            process.terminate()
            assert process.wait(60) == 0


def test_sa22_a_broker_with_a_login_and_its_first_user(tmp_path: Path) -> None:
    bare = BareEnvironment(tmp_path / "bare")
    command = f"exec {WITH_LOGIN.strip().replace(':9092', ':0')}"
    with subprocess.Popen(
        ["bash", "-c", command], cwd=tmp_path, env=bare.variables(), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout
            ready = re.search(r"ready at (\S+)", process.stdout.readline())
            assert ready
            added = bare.run(USERS, tmp_path)
            assert (added.returncode, added.stdout) == (0, "User ada was added.\n"), added.stderr
            deadline = time.monotonic() + 60
            while (done := bare.run(AS_ADA, tmp_path, SILTSTONE_BOOTSTRAP=ready[1])).returncode:
                assert "refuses the login of ada" in done.stderr, "until the broker has read the metadata"
                assert time.monotonic() < deadline
            assert "There are no topics yet, or none that ada may see" in done.stdout
        finally:
            process.terminate()
            assert process.wait(60) == 0


def test_the_settings_are_read(tmp_path: Path) -> None:
    (tmp_path / "siltstone.toml").write_text(SETTINGS)
    settings = load_node_settings(tmp_path, environment={})
    inside, outside = addresses_of(settings)
    assert (inside.protocol, outside.protocol) == (SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL)
    assert outside.advertised_host == "broker.example"
    external = settings.named_listeners["EXTERNAL"]
    assert external.tls_client_auth is CertificateWanted.REQUIRED


def test_sa17_the_settings_of_tokens_are_read(tmp_path: Path) -> None:
    (tmp_path / "siltstone.toml").write_text(f'listeners = ["EXTERNAL://127.0.0.1:0"]\n{TOKENS}')
    settings = load_node_settings(tmp_path, environment={})
    bearer = settings.named_listeners["EXTERNAL"].bearer
    assert bearer is not None
    assert (bearer.issuer, bearer.audience) == ("https://idp.example/realm", "kafka")
    assert bearer.algorithms == ("RS256", "ES256")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[siltstone.Broker, Path]]:
    """A broker with a login, and a folder with the file of its authority, as the blocks of clients want it."""
    folder = tmp_path_factory.mktemp("clients")
    with siltstone.Broker(users={"ada": "pencil"}, tls=True) as broker:
        shutil.copy(broker.client_config()["ssl.ca.location"], folder / "ca.pem")
        yield broker, folder


@pytest.mark.parametrize("block", CLIENTS, ids=["confluent-kafka", "kafka-python", "aiokafka"])
def test_sa01_the_block_of_each_client(secured: tuple[siltstone.Broker, Path], block: str) -> None:
    broker, folder = secured
    topic = broker.create_topic(f"flights-{CLIENTS.index(block)}")
    program = block.replace("broker.example:9093", broker.bootstrap_servers).replace(
        '"flights"', f'"{topic}"'
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=120, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [record.value for record in broker.records(topic)] == [b"one"]


def test_sa23_the_file_for_our_commands(secured: tuple[siltstone.Broker, Path]) -> None:
    broker, folder = secured
    file = folder / "ada.properties"
    file.touch(0o600)
    file.write_text(OURS)
    done = subprocess.run(
        [SILTSTONE, "topics", "--client-config", file, "--bootstrap", broker.bootstrap_servers],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


@pytest.mark.kafka
@pytest.mark.nightly(tried="runs of Kafka's tools")
def test_sa01_the_file_for_java(
    secured: tuple[siltstone.Broker, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from oracles.java_tools import KafkaTools

    broker, folder = secured
    topic = broker.create_topic("for-java")
    file = folder / "java.properties"
    file.write_text(JAVA)
    monkeypatch.chdir(folder)
    with or_skip(lambda: nullcontext(KafkaTools(broker.bootstrap_servers))) as tools:
        listed = tools.run("kafka-topics", "--list", "--command-config", str(file))
        assert listed.status == 0 and topic in listed.output.split(), listed.errors
