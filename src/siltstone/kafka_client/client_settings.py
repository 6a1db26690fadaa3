"""How this client encrypts and logs in: settings under librdkafka's names, from a file or a mapping.

The file has lines ``name=value``. Later ones win:

    SILTSTONE_CLIENT_CONFIG  <  --client-config FILE  <  an argument of a program

A file may be shared with other programs, so names of other groups than ``security.``, ``ssl.`` and ``sasl.`` are left
to those, but for ``bootstrap.servers``. Unknown names of these groups are refused, because a misspelt one would leave a
connection less safe than its owner believes. Texts of errors show no values. ``tls`` makes connections of the settings.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from siltstone.model.access import LoginMechanism, SecurityProtocol
from siltstone.model.errors import InvalidRequest, did_you_mean
from siltstone.model.secret import NO_SECRET, Secret
from siltstone.runtime.https import is_https
from siltstone.runtime.secret_sources import is_open_to_all

CONFIG_VARIABLE = "SILTSTONE_CLIENT_CONFIG"
"""The variable of the environment that names a file for all clients of a process."""

FILE_BYTES_MAX = 1 << 20
GROUPS = ("security.", "ssl.", "sasl.", "https.", "siltstone.")
LISTENER = "siltstone.listener"
BOOTSTRAP = "bootstrap.servers"
_FIELDS = {
    "security.protocol": "protocol",
    "ssl.ca.location": "authorities",
    "ssl.certificate.location": "certificate",
    "ssl.key.location": "key",
    "ssl.key.password": "key_password",
    "ssl.endpoint.identification.algorithm": "host_check",
    "sasl.mechanism": "mechanism",
    "sasl.mechanisms": "mechanism",
    "sasl.username": "username",
    "sasl.password": "password",
    "sasl.oauthbearer.method": "token_method",
    "sasl.oauthbearer.token.file": "token_file",
    "sasl.oauthbearer.token.endpoint.url": "token_endpoint",
    "sasl.oauthbearer.client.id": "client_id",
    "sasl.oauthbearer.client.secret": "client_secret",
    "sasl.oauthbearer.scope": "token_scope",
    "https.ca.location": "https_authorities",
    LISTENER: "listener",
}
_SECRETS = {
    "ssl.key.password": "key_password",
    "sasl.password": "password",
    "sasl.oauthbearer.client.secret": "client_secret",
}
_OF_TOKENS = ("token_method", "token_file", "token_endpoint", "client_id", "token_scope", "https_authorities")
_OF_JAVA = {
    "ssl.truststore.location": "ssl.ca.location, a file in PEM",
    "ssl.keystore.location": "ssl.certificate.location and ssl.key.location, files in PEM",
    "ssl.key.pem": "ssl.key.location, a file",
    "ssl.certificate.pem": "ssl.certificate.location, a file",
    "ssl.ca.pem": "ssl.ca.location, a file",
    "ssl.truststore.password": "ssl.ca.location, which needs none",
    "ssl.keystore.password": "ssl.key.password",
    "sasl.jaas.config": "sasl.username and sasl.password",
}
_CHECKS = {"https": True, "none": False}


class InvalidClientConfig(InvalidRequest):
    """The settings of a client cannot be used."""


class ClientSettings(msgspec.Struct, frozen=True):
    """Files are named by path; "" means none: the authorities of this machine, no certificate of one's own.
    ``listener``: the listener by which scans, sinks and streams reach the nodes of a store; "": the one that the store
    names for its nodes. A client that is given an address has no use for it. ``bootstrap``: where a command connects
    that was given no address."""

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    authorities: str = ""
    certificate: str = ""
    key: str = ""
    key_password: Secret = NO_SECRET
    checks_host: bool = True
    mechanism: LoginMechanism = LoginMechanism.SCRAM_SHA_512
    username: str = ""
    password: Secret = NO_SECRET
    token_file: str = ""
    token_endpoint: str = ""
    client_id: str = ""
    client_secret: Secret = NO_SECRET
    token_scope: str = ""
    https_authorities: str = ""
    listener: str = ""
    bootstrap: str = ""

    @property
    def has_secret(self) -> bool:
        return bool(self.key_password or self.password or self.client_secret)

    def travelling(self) -> "ClientSettings":
        """Returns the same settings, whose secrets may be pickled."""
        return msgspec.structs.replace(
            self,
            key_password=self.key_password.travelling(),
            password=self.password.travelling(),
            client_secret=self.client_secret.travelling(),
        )


PLAIN = ClientSettings()


def settings_of_mapping(given: Mapping[str, str], origin: str) -> ClientSettings:
    """Returns the settings in a mapping by librdkafka's names. Raises InvalidClientConfig."""
    fields = {
        _field(name, origin): value.strip()
        for name, value in given.items()
        if name.startswith(GROUPS) and name not in _SECRETS
    }
    secrets = {field: Secret(given[name]) for name, field in _SECRETS.items() if name in given}
    protocol = _protocol(fields.pop("protocol", SecurityProtocol.PLAINTEXT), origin)
    check = fields.pop("host_check", "https").lower()
    if check not in _CHECKS:
        raise InvalidClientConfig(f"{origin}: ssl.endpoint.identification.algorithm is https or none")
    mechanism = _mechanism(fields.pop("mechanism", LoginMechanism.SCRAM_SHA_512), origin)
    username, listener = fields.pop("username", ""), fields.pop("listener", "").upper()
    tokens = {field: fields.pop(field) for field in _OF_TOKENS if field in fields}
    client_secret = secrets.pop("client_secret", NO_SECRET)
    if mechanism is LoginMechanism.OAUTHBEARER and protocol.wants_login:
        _check_tokens(protocol, tokens, client_secret, origin)
    elif tokens or client_secret:
        raise InvalidClientConfig(
            f"{origin}: settings of tokens need sasl.mechanism=OAUTHBEARER and security.protocol=SASL_SSL"
        )
    tokens.pop("token_method", None)
    if not protocol.is_encrypted and (fields or "key_password" in secrets):
        raise InvalidClientConfig(
            f"{origin}: settings of TLS have no effect with security.protocol={protocol}: set security.protocol="
            f"{'SASL_SSL' if protocol.wants_login else 'SSL'}"
        )
    if mechanism is not LoginMechanism.OAUTHBEARER or not protocol.wants_login:
        _check_login(protocol, mechanism, username, secrets.get("password", NO_SECRET), origin)
    if bool(fields.get("certificate")) is not bool(fields.get("key")):
        raise InvalidClientConfig(
            f"{origin}: ssl.certificate.location and ssl.key.location belong together: name both"
        )
    return ClientSettings(
        protocol=protocol,
        authorities=fields.get("authorities", ""),
        certificate=fields.get("certificate", ""),
        key=fields.get("key", ""),
        key_password=secrets.get("key_password", NO_SECRET),
        checks_host=_CHECKS[check],
        mechanism=mechanism,
        username=username,
        password=secrets.get("password", NO_SECRET),
        client_secret=client_secret,
        listener=listener,
        bootstrap=given.get(BOOTSTRAP, "").strip(),
        **tokens,
    )


def _check_tokens(
    protocol: SecurityProtocol, tokens: Mapping[str, str], client_secret: Secret, origin: str
) -> None:
    """Raises InvalidClientConfig."""
    if not protocol.is_encrypted:
        raise InvalidClientConfig(
            f"{origin}: sasl.mechanism=OAUTHBEARER sends the token as it is, and security.protocol={protocol} does not "
            "encrypt: set security.protocol=SASL_SSL"
        )
    method = tokens.get("token_method", "oidc" if "token_endpoint" in tokens else "default")
    if method.lower() not in ("default", "oidc"):
        raise InvalidClientConfig(f"{origin}: sasl.oauthbearer.method is oidc, or default with a token.file")
    endpoint = tokens.get("token_endpoint", "")
    is_oidc = bool(is_https(endpoint) and tokens.get("client_id") and client_secret)
    if is_oidc is bool(tokens.get("token_file")) or (endpoint and not is_oidc):
        raise InvalidClientConfig(
            f"{origin}: sasl.mechanism=OAUTHBEARER needs sasl.oauthbearer.token.file, or all of "
            "sasl.oauthbearer.token.endpoint.url (https://…), sasl.oauthbearer.client.id and "
            "sasl.oauthbearer.client.secret"
        )


def _check_login(
    protocol: SecurityProtocol, mechanism: LoginMechanism, username: str, password: Secret, origin: str
) -> None:
    if protocol.wants_login and not (username and password):
        raise InvalidClientConfig(
            f"{origin}: security.protocol={protocol} needs sasl.username and sasl.password"
        )
    if not protocol.wants_login and (username or password):
        raise InvalidClientConfig(
            f"{origin}: sasl.username and sasl.password have no effect with security.protocol={protocol}: set "
            f"security.protocol={'SASL_SSL' if protocol.is_encrypted else 'SASL_PLAINTEXT'}"
        )
    if protocol is SecurityProtocol.SASL_PLAINTEXT and mechanism is LoginMechanism.PLAIN:
        raise InvalidClientConfig(
            f"{origin}: sasl.mechanism=PLAIN sends the password as it is, and security.protocol={protocol} does not "
            "encrypt: set security.protocol=SASL_SSL, or sasl.mechanism=SCRAM-SHA-512"
        )


def _mechanism(written: str, origin: str) -> LoginMechanism:
    known = {each.value: each for each in LoginMechanism}
    if (mechanism := known.get(written.upper())) is None:
        raise InvalidClientConfig(f"{origin}: sasl.mechanism is one of {', '.join(known)}")
    return mechanism


def _field(name: str, origin: str) -> str:
    if name in _FIELDS:
        return _FIELDS[name]
    if name in _OF_JAVA:
        raise InvalidClientConfig(f"{origin}: {name} is a setting of Java's clients: use {_OF_JAVA[name]}")
    hint = did_you_mean(name, _FIELDS, f"known are {', '.join(_FIELDS)}")
    raise InvalidClientConfig(f"{origin}: {name} is not a setting of this client; {hint}")


def _protocol(written: str, origin: str) -> SecurityProtocol:
    known = {each.value: each for each in SecurityProtocol}
    protocol = known.get(written.upper())
    if protocol is None:
        raise InvalidClientConfig(f"{origin}: security.protocol is one of {', '.join(known)}")
    return protocol


def settings_of_file(path: Path) -> ClientSettings:
    """Reads a file of ``name=value`` lines, with comments that begin with #. One with a password must not be readable
    by every user of the machine. Raises InvalidClientConfig."""
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1).decode()
            mode = os.fstat(file.fileno()).st_mode
    except (OSError, UnicodeDecodeError) as failure:
        reason = failure.strerror if isinstance(failure, OSError) else "not UTF-8"
        raise InvalidClientConfig(f"client configuration {path} cannot be read: {reason}") from failure
    if len(content) > FILE_BYTES_MAX:
        raise InvalidClientConfig(f"client configuration {path} has more than {FILE_BYTES_MAX} bytes")
    given: dict[str, str] = {}
    for number, line in enumerate(content.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped[0] == "#":
            continue
        name, separator, value = stripped.partition("=")
        if not separator:
            raise InvalidClientConfig(f"client configuration {path}, line {number}: write name=value")
        given[name.strip()] = value.strip()
    if not given.keys().isdisjoint(_SECRETS) and is_open_to_all(mode):
        raise InvalidClientConfig(
            f"client configuration {path} holds a password, and every user of this machine may read it: chmod 640 it"
        )
    return settings_of_mapping(given, f"client configuration {path}")


def settings_of_process(environment: Mapping[str, str] = os.environ) -> ClientSettings:
    """Returns the settings of a client that was given none: those of the file that the environment names. Raises
    InvalidClientConfig."""
    named = environment.get(CONFIG_VARIABLE)
    return settings_of_file(Path(named)) if named else PLAIN
