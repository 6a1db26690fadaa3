"""docs/security.md is true: its blocks are run, its settings are read. What each client does is in test_tls."""

import re
import subprocess
import time
from pathlib import Path

from siltstone.model.access import SecurityProtocol
from siltstone.server.network.listener_settings import CertificateWanted
from siltstone.server.node_listeners import addresses_of
from siltstone.server.settings.node import load_node_settings
from support.pages.bare_environment import BareEnvironment
from support.pages.documents import ROOT, blocks

PAGE = ROOT / "docs" / "security.md"
_, SERVE, COMMANDS, WITH_LOGIN, USERS, AS_ADA = blocks(PAGE, "sh")
SETTINGS, TOKENS = blocks(PAGE, "toml")
RUN = [SERVE, COMMANDS, SETTINGS, TOKENS, WITH_LOGIN, USERS, AS_ADA]


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
            assert "There are no topics yet" in done.stdout
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
