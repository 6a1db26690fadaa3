"""How the Java client gets in: TLS, certificates and logins."""

import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from conformance.drivers.java.clients import assign, read
from conformance.drivers.scenario import Scenario
from conformance.drivers.secured import SCENARIOS as SHARED
from conformance.drivers.secured import SecuredClient
from conformance.secured import Access
from oracles.java_clients import JavaClientFailed, JavaClients, Record

MODULES = "org.apache.kafka.common.security"
BEARER = f"{MODULES}.oauthbearer.OAuthBearer"


def settings(access: Access) -> dict[str, Any]:
    chosen = {
        "bootstrap.servers": access.bootstrap, "security.protocol": access.protocol,
        "ssl.truststore.type": "PEM", "ssl.truststore.location": access.authority,
    }  # fmt: skip
    if access.certificate_and_key:
        chosen |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": access.certificate_and_key}
    if access.mechanism:
        chosen |= {"sasl.mechanism": access.mechanism, "sasl.jaas.config": _login(access)}
    return chosen


def _login(access: Access) -> str:
    if access.token:
        return f"{BEARER}LoginModule required;"
    kind = "plain.Plain" if access.mechanism == "PLAIN" else "scram.Scram"
    return f'{MODULES}.{kind}LoginModule required username="{access.user}" password="{access.password}";'


def client_of(clients: JavaClients) -> SecuredClient:
    return SecuredClient(
        partial(_write, clients), partial(_read, clients), _name_of,
        "SaslAuthenticationException", "TopicAuthorizationException",
    )  # fmt: skip


def _write(clients: JavaClients, access: Access, topic: str, values: Sequence[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        chosen = {**settings(access), **_token_of_file(clients, access, Path(folder))}
        with clients.producer(chosen) as producer:
            for value in values:
                clients.send(producer, topic, [Record(value, partition=0)])


def _read(clients: JavaClients, access: Access, topic: str, count: int) -> list[bytes | None]:
    with tempfile.TemporaryDirectory() as folder:
        chosen = {**settings(access), **_token_of_file(clients, access, Path(folder))}
        with clients.consumer(chosen) as consumer:
            assign(clients, consumer, topic)
            return [record.value for record in read(clients, consumer, count)]


def _token_of_file(clients: JavaClients, access: Access, folder: Path) -> dict[str, Any]:
    """Returns the settings by which the client reads the token from a file, which Java has to allow."""
    if not access.token:
        return {}
    file = folder / "token"
    file.write_text(access.token)
    name = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
    clients.machine.classes.java.lang.System.setProperty(name, file.as_uri())
    return {
        "sasl.login.callback.handler.class": f"{BEARER}LoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
    }


def _name_of(error: Exception) -> str:
    return error.kind if isinstance(error, JavaClientFailed) else repr(error)


def _on(name: str) -> Callable[[Scenario, JavaClients], None]:
    return lambda scenario, clients: SHARED[name](scenario, client_of(clients))


SCENARIOS = {name: _on(name) for name in SHARED}
