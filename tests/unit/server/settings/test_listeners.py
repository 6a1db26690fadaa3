from pathlib import Path

import pytest

from siltstone.model.access import SecurityProtocol
from siltstone.offline.opening.values import SettingRefused
from siltstone.server.network.listener_settings import CertificateWanted, TlsVersion
from siltstone.server.settings.listeners import key_of_variable
from siltstone.server.settings.node import load_node_settings

TOML = """
listeners = ["INTERNAL://127.0.0.1:9092", "EXTERNAL://127.0.0.1:9093"]
[listener.INTERNAL]
protocol = "PLAINTEXT"
[listener.external]
protocol = "SSL"
tls_certificate_file = "tls/broker.pem"
tls_key_file = "/etc/broker-key.pem"
tls_version_min = 1.3
handshake_ms_max = "5s"
"""


def test_all_sources_name_listeners(tmp_path: Path) -> None:
    (tmp_path / "siltstone.toml").write_text(TOML)
    settings = load_node_settings(
        tmp_path,
        environment={"SILTSTONE_LISTENER_EXTERNAL_TLS_CLIENT_AUTH": "required"},
        flags={"listener.External.tls_client_ca_file": "/etc/ca.pem", "listener.ADMIN.protocol": "SSL"},
    )
    assert list(settings.named_listeners) == ["ADMIN", "EXTERNAL", "INTERNAL"]
    assert settings.named_listeners["INTERNAL"].protocol is SecurityProtocol.PLAINTEXT
    external = settings.named_listeners["EXTERNAL"]
    assert external.protocol is SecurityProtocol.SSL
    assert external.tls_certificate_file == str(tmp_path / "tls/broker.pem"), "relative to the store"
    assert external.tls_key_file == "/etc/broker-key.pem"
    assert (external.tls_client_auth, external.tls_version_min) == (
        CertificateWanted.REQUIRED,
        TlsVersion.TLS_1_3,
    )
    assert external.handshake_ms_max == 5_000
    assert settings.admin_listener.protocol is SecurityProtocol.SSL
    printed = str(settings)
    assert "listener.EXTERNAL.tls_client_auth = required\n" in printed
    assert "listener.EXTERNAL.handshake_ms_max = 5 s\n" in printed
    assert "tls_ciphers" not in printed


def test_a_name_is_known_by_the_end_of_its_variable() -> None:
    assert (
        key_of_variable("SILTSTONE_LISTENER_TLS_KEY_TLS_KEY_PASSWORD_FILE")
        == "listener.TLS_KEY.tls_key_password_file"
    )
    assert key_of_variable("SILTSTONE_LISTENER_A_PROTOCOL") == "listener.A.protocol"
    assert key_of_variable("SILTSTONE_LISTENER_PROTOCOL") is None
    assert key_of_variable("SILTSTONE_ENGINE_NODE_ID") is None


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"listener.A.protocol": "TLS"}, "listener.A.protocol: \"TLS\" is not allowed; use one of PLAINTEXT, SSL"),
        ({"listener.A.tls_key": "x"}, r"listener.A.tls_key is not a setting; did you mean listener.A.tls_key_file\?"),
        ({"listener.protocol": "SSL"}, "listener.protocol is not a setting"),
        ({"listener.A.tls_client_auth": "required"}, r"\[listener.A\] .* needs tls_client_ca_file"),
        ({"listener.A.tls_principal_mapping_rules": "RULE:("}, "tls_principal_mapping_rules: .* does not begin"),
        ({"listener.A.handshake_ms_max": "0"}, "at least 1 ms"),
    ],
)  # fmt: skip
def test_tl17_what_is_refused_with_its_name(tmp_path: Path, flags: dict[str, str], says: str) -> None:
    with pytest.raises(SettingRefused, match=says):
        load_node_settings(tmp_path, environment={}, flags=flags)
