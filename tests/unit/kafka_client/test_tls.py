import ssl
from pathlib import Path

import pytest

from siltstone.kafka_client.client_settings import ClientSettings, InvalidClientConfig
from siltstone.kafka_client.failures import BrokerWithoutTls, ClientNotTrusted, TlsFailed
from siltstone.kafka_client.tls import client_context, failure_of
from siltstone.model.access import SecurityProtocol
from siltstone.model.secret import Secret
from support.tls.authority import Authority


def settings(**files: str) -> ClientSettings:
    return ClientSettings(SecurityProtocol.SSL, **files)


def test_the_authorities_of_the_machine_are_trusted_unless_others_are_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    assert client_context(settings()).check_hostname
    named = client_context(settings(authorities=str(authority.file)))
    assert [each["subject"] for each in named.get_ca_certs()] == [((("commonName", "Authority A"),),)]
    assert named.verify_mode is ssl.CERT_REQUIRED
    unchecked = client_context(ClientSettings(SecurityProtocol.SSL, str(authority.file), checks_host=False))
    assert not unchecked.check_hostname and unchecked.verify_mode is ssl.CERT_REQUIRED


def test_files_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    locked = authority.issue("locked", password=b"secret")
    files = {
        "authorities": str(authority.file),
        "certificate": str(locked.certificate),
        "key": str(locked.key),
    }
    client_context(settings(**files, key_password=Secret("secret")))
    for wrong in ({"key_password": Secret("v4lue")}, {}, {"key": str(tmp_path / "none")}):
        with pytest.raises(InvalidClientConfig, match=r"ssl\.key\.location") as refused:
            client_context(settings(**{**files, **wrong}))
        assert "v4lue" not in str(refused.value)
    for wrong in (str(tmp_path / "none"), str(locked.key)):
        with pytest.raises(
            InvalidClientConfig, match=r"ssl\.ca\.location: .* is not a file with certificates"
        ):
            client_context(settings(authorities=wrong))


@pytest.mark.parametrize(
    ("reason", "kind", "says"),
    [
        ("WRONG_VERSION_NUMBER", BrokerWithoutTls, "set security.protocol=PLAINTEXT"),
        ("TLSV13_ALERT_CERTIFICATE_REQUIRED", ClientNotTrusted, "set ssl.certificate.location"),
        ("A_NEW_ONE", TlsFailed, "a new one"),
    ],
)
def test_what_openssl_says_in_our_words(reason: str, kind: type[TlsFailed], says: str) -> None:
    error = ssl.SSLError(1, reason)
    error.reason = reason
    found = failure_of(error, "h:1")
    assert type(found) is kind and says in str(found) and "h:1" in str(found)
