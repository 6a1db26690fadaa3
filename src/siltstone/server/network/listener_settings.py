"""Defines the settings of one listener, ``listener.NAME.*``: what it speaks, and its certificates. Frozen values.

``tls`` checks the files that they name, ``addresses`` knows which listener speaks what.
"""

from enum import StrEnum

import msgspec

from siltstone.model import serving_limits
from siltstone.model.access import SecurityProtocol
from siltstone.model.errors import InvalidRequest
from siltstone.server.network.principal_mapping import DEFAULT, InvalidMappingRule, parse_mapping_rules


class CertificateWanted(StrEnum):
    """Whether a listener asks its clients for a certificate [Kafka: ssl.client.auth]."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


class TlsVersion(StrEnum):
    TLS_1_2 = "1.2"
    TLS_1_3 = "1.3"


class InvalidListenerSetting(InvalidRequest):
    """A setting of a listener has a value that cannot work, or a file that it names cannot be used."""


class ListenerSettings(msgspec.Struct, frozen=True):
    """Files are named by path; "" means none. ``protocol`` None: the name of the listener says it, or
    ``listener_security_protocol_map`` does."""

    protocol: SecurityProtocol | None = None
    tls_certificate_file: str = ""
    tls_key_file: str = ""
    tls_key_password_file: str = ""
    tls_client_ca_file: str = ""
    tls_client_auth: CertificateWanted = CertificateWanted.NONE
    tls_version_min: TlsVersion = TlsVersion.TLS_1_2
    tls_ciphers: str = ""
    tls_principal_mapping_rules: str = DEFAULT
    handshake_ms_max: int = serving_limits.HANDSHAKE_MS_MAX

    def __post_init__(self) -> None:
        if self.tls_client_auth is not CertificateWanted.NONE and not self.tls_client_ca_file:
            raise InvalidListenerSetting(
                f"tls_client_auth={self.tls_client_auth} needs tls_client_ca_file: the certificates of the "
                "authorities whose clients are let in"
            )
        try:
            parse_mapping_rules(self.tls_principal_mapping_rules)
        except InvalidMappingRule as wrong:
            raise InvalidListenerSetting(f"tls_principal_mapping_rules: {wrong}") from wrong


PLAIN = ListenerSettings()
