"""Planted secrets, through every way that a login can go, are in no log at DEBUG, metric, page, command line or file
of a broker (SP01, SA19)."""

import base64
import re
import subprocess
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

from aiokafka.conn import ScramAuthenticator

from siltstone.foundation.scram import keys_of, salted_password
from siltstone.kafka_protocol.codec import encode
from siltstone.kafka_protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from siltstone.kafka_protocol.messages.metadata import MetadataRequest
from siltstone.kafka_protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from siltstone.kafka_protocol.messages.sasl_handshake import SaslHandshakeRequest
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import load_node_settings
from support.broker.broker_process import SILTSTONE, BrokerProcess
from support.kafka.raw_kafka import ConnectionClosed, RawConnection

PASSWORD, WRONG, TOKEN, NEW = "pl4nted-right", "pl4nted-wrong", "pl4nted-token", "pl4nted-new"
SALT = b"pl4nted-salt"
SALTED = salted_password("sha256", NEW.encode(), SALT, 4096)


def scram_tokens(connection: RawConnection, password: str) -> None:
    """A whole login by SCRAM, whatever becomes of it."""
    client = ScramAuthenticator(
        loop=None, sasl_plain_password=password, sasl_plain_username="ada", sasl_mechanism="SCRAM-SHA-512"
    )
    connection.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1)
    challenged = connection.ask(SaslAuthenticateRequest(auth_bytes=client.first_message().encode()), 2)
    client.process_server_first_message(bytes(challenged.auth_bytes).decode())
    connection.ask(SaslAuthenticateRequest(auth_bytes=client.final_message().encode()), 2)


def play(broker: BrokerProcess) -> None:
    """Logins that succeed, fail and are malformed, and a change of a password that is taken and one that is not."""
    with RawConnection(broker.address) as connection:
        scram_tokens(connection, WRONG)
    for token in (f"\0ada\0{TOKEN}".encode(), TOKEN.encode(), TOKEN.encode() + b"\xff"):
        with RawConnection(broker.address) as connection:
            connection.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1)
            connection.ask(SaslAuthenticateRequest(auth_bytes=token), 2)
    body = encode(SaslAuthenticateRequest(auth_bytes=TOKEN.encode()), 2)
    for spoilt in (body[:-3], b"\xff\xff\xff\xff\x0f" + body, TOKEN.encode()):
        with RawConnection(broker.address) as connection:
            connection.ask(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1)
            connection.send_frame(b"\0\x24\0\x02\0\0\0\7\0\1c\0" + spoilt)
            connection.assert_closed()
    with RawConnection(broker.address) as connection:
        connection.ask(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
    upsertion = ScramCredentialUpsertion(
        name="bob", mechanism=1, iterations=4096, salt=SALT, salted_password=SALTED
    )
    with RawConnection(broker.address) as connection:
        scram_tokens(connection, PASSWORD)
        connection.ask(MetadataRequest(topics=[]), 12)
        for rows in ([upsertion], [upsertion, upsertion]):
            connection.ask(AlterUserScramCredentialsRequest(upsertions=rows), 0)
        changed = encode(AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0)
        connection.send_frame(b"\0\x33\0\0\0\0\0\7\0\1c\0" + changed[:-9])
        with suppress(ConnectionClosed):
            connection.receive_frame()


def secrets_of(folder: Path) -> dict[str, bytes]:
    """Everything that must not be shown: what was planted, and what was made of it."""
    keys = keys_of("sha256", SALTED)
    found = {
        "right": PASSWORD.encode(),
        "wrong": WRONG.encode(),
        "token": TOKEN.encode(),
        "new": NEW.encode(),
    }
    found |= {"salted": SALTED, "stored": keys.stored_key, "server": keys.server_key, "salt": SALT}
    with open_store(load_node_settings(folder)) as store:
        for name, user in store.metadata.image.users.items():
            for kept in user.credentials:
                for each in ("salt", "stored_key", "server_key"):
                    found[f"{name} {kept.mechanism} {each}"] = getattr(kept, each)
    return found


def shown_forms(secret: bytes) -> set[str]:
    return {secret.decode("latin-1"), secret.hex(), base64.b64encode(secret).decode(), repr(secret)[2:-1]}


def test_sp01_no_secret_is_shown_whatever_a_client_does(tmp_path: Path) -> None:
    folder, password = tmp_path / "store", tmp_path / "password"
    password.write_text(PASSWORD)
    password.chmod(0o600)
    options = ("-vv", "--listener", "SASL_PLAINTEXT://127.0.0.1:0")
    with BrokerProcess(folder, {"admin.listeners": "127.0.0.1:0"}, options=options) as broker:
        added = subprocess.run(
            [SILTSTONE, "users", "add", "ada", "--password-file", password, "--store", folder],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        shown = [added.stdout, added.stderr]
        deadline = time.monotonic() + 60
        while "metrics and health" not in broker.log and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)  # the broker reads the metadata each 100 ms
        play(broker)
        url = re.search(r"http://[^/\s]+", broker.log)
        assert url is not None, broker.log
        for page in ("metrics", "readyz", "debug"):
            try:
                with urllib.request.urlopen(f"{url[0]}/{page}", timeout=60) as answer:
                    shown.append(answer.read().decode())
            except urllib.error.HTTPError:
                assert page == "debug"
        shown.append(Path(f"/proc/{broker.process_id}/cmdline").read_text())
        commands = (
            ("clients", "--admin", url[0].removeprefix("http://")),
            ("users", "--json", "--store", folder),
        )
        shown += [
            subprocess.run([SILTSTONE, *words], capture_output=True, text=True, check=True).stdout
            for words in commands
        ]
        counted = re.search(
            r'siltstone_logins_total\{mechanism="SCRAM-SHA-512",outcome="failed"\} (\d+)', shown[2]
        )
        assert counted is not None and int(counted[1]) >= 4
    shown.append(broker.log)
    assert "a login from 127.0.0.1" in broker.log
    for name, secret in secrets_of(folder).items():
        for form in shown_forms(secret):
            for text in shown:
                assert form not in text, f"{name} is shown: {text[max(0, text.index(form) - 200) :][:300]}"
