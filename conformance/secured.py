"""What a secured broker is set up with, and how each feature's client gets in: one row a feature.

    SECURE    TLS, nobody is asked for a certificate
    MUTUAL    TLS, a certificate of the client is required, which is its login
    LOGIN     TLS, and a login by each mechanism

Rights are on. The stage comes by the plaintext listener, as ANONYMOUS, which is a super user.
"""

import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
from cryptography.x509.oid import NameOID

from oracles.broker_process import HOST, free_ports
from support.security.issuer import AUDIENCE, ISSUER, Issuer
from support.tls.authority import Authority, Pair

SECURE, MUTUAL, LOGIN = "SECURE", "MUTUAL", "LOGIN"
PROTOCOLS = {SECURE: "SSL", MUTUAL: "SSL", LOGIN: "SASL_SSL"}
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER")
USERS = {"ada": "pencil", "eve": "rubber", "bob": "ruler"}
SUPER_USERS = ("User:ANONYMOUS", "User:CN=client", "User:ada", "User:bob", "User:loader")
"""All but eve, whose rights are what the stage allows. loader comes with a token."""


class Way(msgspec.Struct, frozen=True):
    """The listener, and with LOGIN how the client logs in there."""

    listener: str
    mechanism: str = ""
    user: str = ""
    password: str = ""


def _by(mechanism: str, user: str = "ada") -> Way:
    return Way(LOGIN, mechanism, user, USERS[user])


WAYS: Mapping[str, Way] = {
    "tls": Way(SECURE),
    "mutual_tls": Way(MUTUAL),
    "sasl_plain": _by("PLAIN"),
    "scram_sha_256": _by("SCRAM-SHA-256"),
    "scram_sha_512": _by("SCRAM-SHA-512"),
    "oauthbearer": Way(LOGIN, "OAUTHBEARER", "loader"),
    "wrong_password": Way(LOGIN, "PLAIN", "ada", "not-it"),
    "denied_topic": _by("PLAIN", "eve"),
    "throttled": _by("PLAIN", "bob"),
    "tools_login": _by("SCRAM-SHA-512"),
}


class Access(msgspec.Struct, frozen=True):
    """What a client needs to get in. Files are named; ``token`` is a token itself."""

    bootstrap: str
    protocol: str
    authority: str
    certificate: str = ""
    key: str = ""
    certificate_and_key: str = ""
    mechanism: str = ""
    user: str = ""
    password: str = ""
    token: str = ""


class Grounds(msgspec.Struct, frozen=True):
    """The files and the ports of one secured broker."""

    authority: Path
    broker: Pair
    client: Pair
    key_set: Path
    issuer: Issuer
    ports: Mapping[str, int]

    def access(self, feature: str) -> Access:
        way = WAYS[feature]
        access = Access(
            f"{HOST}:{self.ports[way.listener]}", PROTOCOLS[way.listener], str(self.authority),
            mechanism=way.mechanism, user=way.user, password=way.password,
        )  # fmt: skip
        if way.listener == MUTUAL:
            return msgspec.structs.replace(
                access, certificate=str(self.client.certificate), key=str(self.client.key),
                certificate_and_key=str(in_one_file(self.client)),
            )  # fmt: skip
        if way.mechanism == "OAUTHBEARER":
            token = self.issuer.token(time.time_ns() // 1_000_000, sub=way.user)
            return msgspec.structs.replace(access, token=token)
        return access


def new_grounds(folder: Path) -> Grounds:
    authority, issuer = Authority(folder), Issuer()
    key_set = folder / "key-set.json"
    key_set.write_bytes(issuer.key_set())
    client = ((NameOID.COMMON_NAME, "client"),)
    return Grounds(
        authority.file, authority.issue("broker"), authority.issue("client", client), key_set, issuer,
        dict(zip(PROTOCOLS, free_ports(len(PROTOCOLS)), strict=True)),
    )  # fmt: skip


def in_one_file(pair: Pair) -> Path:
    """Returns the file that Java reads: the key, then the certificate."""
    both = pair.certificate.with_name(f"{pair.certificate.stem}-both.pem")
    both.write_bytes(pair.key.read_bytes() + pair.certificate.read_bytes())
    return both


def settings_of_siltstone(grounds: Grounds) -> dict[str, str]:
    of_login = {
        "sasl_mechanisms": ",".join(MECHANISMS), "oauth_jwks_file": str(grounds.key_set),
        "oauth_issuer": ISSUER, "oauth_audience": AUDIENCE, "oauth_algorithms": "RS256",
    }  # fmt: skip
    settings = {f"listener.{LOGIN}.{name}": value for name, value in of_login.items()}
    for name, protocol in PROTOCOLS.items():
        settings |= {f"listener.{name}.protocol": protocol, **grounds.broker.settings(name)}
    settings[f"listener.{MUTUAL}.tls_client_auth"] = "required"
    settings[f"listener.{MUTUAL}.tls_client_ca_file"] = str(grounds.authority)
    return settings


def properties_of_kafka(grounds: Grounds) -> dict[str, str]:
    """The same for Apache Kafka, without its listeners."""
    login, modules = f"listener.name.{LOGIN.lower()}", "org.apache.kafka.common.security"
    bearer = f"{modules}.oauthbearer.OAuthBearer"
    passwords = " ".join(f'user_{name}="{password}"' for name, password in USERS.items())
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": ";".join(SUPER_USERS),
        "ssl.keystore.type": "PEM", "ssl.keystore.location": str(in_one_file(grounds.broker)),
        "ssl.truststore.type": "PEM", "ssl.truststore.location": str(grounds.authority),
        f"listener.name.{MUTUAL.lower()}.ssl.client.auth": "required",
        f"{login}.sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"{login}.plain.sasl.jaas.config": f"{modules}.plain.PlainLoginModule required {passwords};",
        f"{login}.oauthbearer.sasl.jaas.config": f"{bearer}LoginModule required;",
        f"{login}.oauthbearer.sasl.server.callback.handler.class": f"{bearer}ValidatorCallbackHandler",
        f"{login}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": grounds.key_set.as_uri(),
        f"{login}.oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
        f"{login}.oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
    }  # fmt: skip
    for mechanism in MECHANISMS[:2]:
        module = f"{modules}.scram.ScramLoginModule required;"
        properties[f"{login}.{mechanism.lower()}.sasl.jaas.config"] = module
    return properties
