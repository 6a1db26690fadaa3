"""Logins by tokens of an issuer, with the clients of people: confluent-kafka, aiokafka, and our commands."""

import time
from collections.abc import Iterator
from pathlib import Path

import aiokafka
import confluent_kafka
import pytest
from aiokafka.abc import AbstractTokenProvider
from aiokafka.helpers import create_ssl_context

from support.processes.cli import run
from support.scenarios import in_loop
from support.security.realm import Realm, called, config_of, running_realm

pytestmark = [pytest.mark.xdist_group("tokens"), pytest.mark.clients]


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    with running_realm(tmp_path_factory.mktemp("realm")) as made:
        yield made


def test_sa01_confluent_kafka_with_a_token(realm: Realm) -> None:
    producer = confluent_kafka.Producer(config_of(realm, realm.token()))
    for number in range(100):
        producer.produce("by-token", b"%d" % number)
        producer.poll(0)
    assert producer.flush(60) == 0


def test_sa16_confluent_kafka_with_a_token_for_somebody_else(realm: Realm) -> None:
    errors: list[confluent_kafka.KafkaError] = []
    config = {**config_of(realm, realm.token(aud="other")), "error_cb": errors.append}
    producer = confluent_kafka.Producer(config)
    producer.produce("by-token", b"never")
    deadline = time.monotonic() + 60
    while not errors and time.monotonic() < deadline:
        producer.poll(0.1)
    assert any("authentication" in str(each).lower() or "login failed" in str(each) for each in errors), (
        errors
    )
    producer.purge()
    assert "InvalidAudience" in realm.broker.log


@in_loop
async def test_sa01_aiokafka_with_a_token(realm: Realm) -> None:
    class Provider(AbstractTokenProvider):
        async def token(self) -> str:
            return realm.token()

    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=realm.broker.bootstrap_servers,
        security_protocol="SASL_SSL",
        ssl_context=create_ssl_context(cafile=realm.trusted),
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Provider(),
    )
    await producer.start()
    await producer.send_and_wait("by-token", b"aiokafka")
    await producer.stop()


def test_sa23_our_commands_with_a_token_in_a_file_and_of_the_issuer(realm: Realm) -> None:
    file = realm.folder / "token"
    file.write_text(realm.token())
    of_file = {"sasl.oauthbearer.token.file": str(file)}
    outcome = called(realm, of_file, "topics", "create", "made-by-token")
    assert outcome.status == 0, outcome.err
    of_issuer = {
        "sasl.oauthbearer.method": "oidc", "sasl.oauthbearer.token.endpoint.url": f"{realm.url}/token",
        "sasl.oauthbearer.client.id": "loader", "sasl.oauthbearer.client.secret": "grail-1975",
        "https.ca.location": str(realm.authority.file),
    }  # fmt: skip
    outcome = called(realm, of_issuer, "topics")
    assert outcome.status == 0 and "made-by-token" in outcome.words, outcome.err
    assert realm.issued == 1
    file.write_text(realm.token(iss="https://elsewhere.example"))
    outcome = called(realm, of_file, "topics")
    assert outcome.status == 2 and "refuses the token" in " ".join(outcome.err.split())
    assert "grail-1975" not in realm.broker.log and "eyJ" not in realm.broker.log + outcome.err


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("oauth_issuer", None, "needs oauth_issuer and oauth_audience"),
        ("oauth_audience", None, "needs oauth_issuer and oauth_audience"),
        ("oauth_jwks_url", None, "oauth_jwks_file or oauth_jwks_url"),
        ("oauth_jwks_url", "http://issuer.example/keys", "https://"),
        ("oauth_algorithms", "none", "is not taken"),
        ("protocol", "SASL_PLAINTEXT", "sends passwords or tokens as they are"),
    ],
)
def test_sa17_without_keys_issuer_or_audience_no_broker_starts(
    realm: Realm, tmp_path: Path, name: str, value: str | None, why: str
) -> None:
    """``value`` None: the setting is left out."""
    options = [word.replace("SASL_SSL", "TOKENS") for word in realm.options() if word != "--tls-self-signed"]
    given = {"protocol": "SASL_SSL"}
    given |= dict(word.removeprefix("listener.TOKENS.").split("=", 1) for word in options if "=" in word)
    given = {key: each for key, each in (given | {name: value}).items() if each is not None}
    words = [word for key, each in given.items() for word in ("--set", f"listener.TOKENS.{key}={each}")]
    outcome = run("serve", "--store", str(tmp_path / "store"), "--listener", "TOKENS://127.0.0.1:0", *words)
    assert outcome.status == 2 and why in " ".join(outcome.err.split()), outcome.err
