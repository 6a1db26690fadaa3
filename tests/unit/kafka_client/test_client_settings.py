import pickle
from pathlib import Path

import pytest

from siltstone.kafka_client.client_settings import (
    CONFIG_VARIABLE,
    PLAIN,
    ClientSettings,
    InvalidClientConfig,
    settings_of_file,
    settings_of_mapping,
    settings_of_process,
)
from siltstone.model.access import LoginMechanism, SecurityProtocol
from siltstone.model.secret import Secret, SecretStays

FILE = """
# for all programs
bootstrap.servers=b:1
client.id = x
security.protocol = ssl
ssl.ca.location=/etc/ca.pem
ssl.certificate.location=/etc/me.pem
ssl.key.location=/etc/me-key.pem
ssl.key.password=p=w
"""


LOGIN = {"security.protocol": "SASL_SSL", "sasl.username": "ada", "sasl.password": "v4lue"}


@pytest.mark.parametrize("name", ["sasl.mechanism", "sasl.mechanisms"])
def test_a_login_by_librdkafkas_names(name: str) -> None:
    found = settings_of_mapping({**LOGIN, name: "plain"}, "the test")
    assert (found.username, found.password, found.mechanism) == ("ada", Secret("v4lue"), LoginMechanism.PLAIN)
    assert settings_of_mapping(LOGIN, "the test").mechanism is LoginMechanism.SCRAM_SHA_512
    assert found.has_secret and "v4lue" not in repr(found)
    with pytest.raises(SecretStays):
        pickle.dumps(found)
    assert pickle.loads(pickle.dumps(found.travelling())) == found


@pytest.mark.parametrize("mode", [0o440, 0o600, 0o640])
def test_sp08_a_file_with_a_password_for_its_owner_and_group(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{name} = {value}\n" for name, value in LOGIN.items()))
    file.chmod(0o644)
    with pytest.raises(InvalidClientConfig, match="chmod 640"):
        settings_of_file(file)
    file.chmod(mode)
    assert settings_of_file(file) == settings_of_mapping(LOGIN, "the test")


def test_a_file_by_librdkafkas_names(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(FILE)
    file.chmod(0o640)
    found = settings_of_file(file)
    assert found == ClientSettings(
        SecurityProtocol.SSL,
        "/etc/ca.pem",
        "/etc/me.pem",
        "/etc/me-key.pem",
        Secret("p=w"),
        checks_host=True,
        bootstrap="b:1",
    )
    assert "p=w" not in repr(found)
    assert settings_of_process({CONFIG_VARIABLE: str(file)}) == found
    assert settings_of_process({}) == PLAIN


@pytest.mark.parametrize("protocol", SecurityProtocol)
def test_the_listener_of_the_nodes_goes_with_every_protocol(protocol: SecurityProtocol) -> None:
    login = {"sasl.username": "ada", "sasl.password": "pencil"} if protocol.wants_login else {}
    given = {"security.protocol": protocol, "siltstone.listener": " secure ", **login}
    assert settings_of_mapping(given, "the test").listener == "SECURE", "listeners have names in upper case"
    assert settings_of_mapping(given | {"siltstone.listener": ""}, "the test").listener == ""
    with pytest.raises(
        InvalidClientConfig, match=r"siltstone\.listner is not a setting .*siltstone\.listener"
    ):
        settings_of_mapping(given | {"siltstone.listner": "SECURE"}, "the test")


def test_a_password_that_everybody_may_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(FILE)
    file.chmod(0o644)
    with pytest.raises(InvalidClientConfig, match="chmod 640") as refused:
        settings_of_file(file)
    assert "p=w" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"security.protocol": "TLS"}, "security.protocol is one of PLAINTEXT"),
        ({"security.protocol": "SASL_SSL"}, "needs sasl.username and sasl.password"),
        (
            {"security.protocol": "SASL_SSL", "sasl.username": "v4lue"},
            "needs sasl.username and sasl.password",
        ),
        (
            {"sasl.username": "v4lue"},
            "have no effect with .*=PLAINTEXT: set security.protocol=SASL_PLAINTEXT",
        ),
        ({"security.protocol": "SSL", "sasl.password": "v4lue"}, "set security.protocol=SASL_SSL"),
        ({**LOGIN, "sasl.mechanism": "v4lue"}, "sasl.mechanism is one of SCRAM-SHA-512"),
        ({**LOGIN, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "does not encrypt"),
        ({**LOGIN, "security.protocol": "SASL_PLAINTEXT", "ssl.ca.location": "v4lue"}, "=SASL_SSL"),
        ({"sasl.jaas.config": "v4lue"}, "use sasl.username and sasl.password"),
        ({"sasl.kerberos.service.name": "v4lue"}, "is not a setting of this client"),
        (
            {"ssl.ca.locations": "v4lue"},
            r"ssl.ca.locations is not a setting .* did you mean ssl.ca.location",
        ),
        (
            {"ssl.keystore.location": "v4lue"},
            "Java's clients: use ssl.certificate.location and ssl.key.location",
        ),
        ({"ssl.ca.location": "v4lue"}, "no effect with security.protocol=PLAINTEXT"),
        ({"security.protocol": "SSL", "ssl.key.location": "v4lue"}, "belong together"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "v4lue"}, "https or none"),
    ],
)
def test_what_cannot_be_used_is_refused_without_its_value(given: dict[str, str], says: str) -> None:
    with pytest.raises(InvalidClientConfig, match=says) as refused:
        settings_of_mapping(given, "the test")
    assert "v4lue" not in str(refused.value) and str(refused.value).startswith("the test: ")


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"security.protocol", "line 1: write name=value"), (b"\xff", "not UTF-8"), (None, "No such file")],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, content: bytes | None, says: str) -> None:
    file = tmp_path / "c"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InvalidClientConfig, match=says):
        settings_of_file(file)
