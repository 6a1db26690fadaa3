"""Defines the settings of one listener, ``listener.NAME.*``: what it speaks, and its certificates. Frozen values.

``tls`` checks the files that they name, ``addresses`` knows which listener speaks what.
"""

from enum import StrEnum

import msgspec

from siltstone.broker.security.bearer.settings import BearerSettings, InvalidBearerSetting, parse_algorithms
from siltstone.model import serving_limits
from siltstone.model.access import LoginMechanism, SecurityProtocol
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


SCRAM_ONLY = f"{LoginMechanism.SCRAM_SHA_512},{LoginMechanism.SCRAM_SHA_256}"
REAUTHENTICATION_MS_MIN = 2_000
"""Clients log in again at 80 to 95 % of the time, and at the earliest a second after the last login."""


def parse_mechanisms(text: str) -> tuple[LoginMechanism, ...]:
    """Returns the mechanisms in a list with commas, the strongest first. Raises InvalidListenerSetting."""
    written = {part.strip().upper() for part in text.split(",") if part.strip()}
    known = {each.value: each for each in LoginMechanism}
    if not written or (unknown := written - known.keys()):
        wrong = f"{', '.join(sorted(unknown))} is not known" if written else "it is empty"
        raise InvalidListenerSetting(f"sasl_mechanisms: {wrong}; known are {', '.join(known)}")
    return tuple(known[each] for each in known if each in written)


class ListenerSettings(msgspec.Struct, frozen=True):
    """Files are named by path; "" means none. ``protocol`` None: the name of the listener says it, or
    ``listener_security_protocol_map`` does. ``max_connections``, ``max_connection_creation_rate`` and
    ``bytes_per_second_max``: 0 is no limit of the listener's own."""

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
    sasl_mechanisms: str = SCRAM_ONLY
    reauthentication_ms_max: int = 0
    oauth_jwks_file: str = ""
    oauth_jwks_url: str = ""
    oauth_ca_file: str = ""
    oauth_issuer: str = ""
    oauth_audience: str = ""
    oauth_algorithms: str = "RS256,ES256"
    oauth_principal_claim: str = "sub"
    max_connections: int = 0
    max_connection_creation_rate: int = 0
    bytes_per_second_max: int = 0

    @property
    def mechanisms(self) -> tuple[LoginMechanism, ...]:
        """How clients may log in, the strongest first."""
        return parse_mechanisms(self.sasl_mechanisms)

    @property
    def bearer(self) -> BearerSettings | None:
        """What is taken as a token; None: tokens are no login. Raises InvalidListenerSetting."""
        if LoginMechanism.OAUTHBEARER not in self.mechanisms:
            return None
        if bool(self.oauth_jwks_file) is bool(self.oauth_jwks_url):
            raise InvalidListenerSetting(
                "OAUTHBEARER needs the keys of the issuer: set oauth_jwks_file or oauth_jwks_url, one of them"
            )
        if self.oauth_jwks_url and "://" not in self.oauth_jwks_url:
            raise InvalidListenerSetting("oauth_jwks_url is an address https://HOST/…")
        try:
            return BearerSettings(
                self.oauth_jwks_file or self.oauth_jwks_url,
                self.oauth_issuer,
                self.oauth_audience,
                parse_algorithms(self.oauth_algorithms),
                self.oauth_principal_claim,
                self.oauth_ca_file,
            )
        except InvalidBearerSetting as wrong:
            raise InvalidListenerSetting(str(wrong)) from wrong

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
        parse_mechanisms(self.sasl_mechanisms)
        _ = self.bearer
        for name in ("max_connections", "max_connection_creation_rate", "bytes_per_second_max"):
            if getattr(self, name) < 0:
                raise InvalidListenerSetting(f"{name}={getattr(self, name)}: it is 0 for no limit, or more")
        if self.reauthentication_ms_max and self.reauthentication_ms_max < REAUTHENTICATION_MS_MIN:
            raise InvalidListenerSetting(
                f"reauthentication_ms_max={self.reauthentication_ms_max}: a session lasts {REAUTHENTICATION_MS_MIN} ms "
                "at least; 0: as long as its connection"
            )


PLAIN = ListenerSettings()
