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
from siltstone.model.access import SecurityProtocol

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


def test_a_file_by_librdkafkas_names(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(FILE)
    file.chmod(0o640)
    found = settings_of_file(file)
    assert found == ClientSettings(
        SecurityProtocol.SSL, "/etc/ca.pem", "/etc/me.pem", "/etc/me-key.pem", "p=w", checks_host=True
    )
    assert "p=w" not in repr(found)
    assert settings_of_process({CONFIG_VARIABLE: str(file)}) == found
    assert settings_of_process({}) == PLAIN


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
        ({"security.protocol": "TLS"}, "security.protocol is PLAINTEXT or SSL"),
        ({"security.protocol": "SASL_SSL"}, r"logins \(SASL\) are not supported yet; use SSL"),
        ({"sasl.username": "v4lue"}, "sasl.username: logins"),
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
