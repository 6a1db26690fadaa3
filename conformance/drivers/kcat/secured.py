"""How kcat gets in: TLS, certificates and logins."""

from collections.abc import Sequence

from conformance.drivers.kcat.program import KcatFailed, read, run
from conformance.drivers.scenario import Scenario
from conformance.drivers.secured import SecuredClient, scenarios_of
from conformance.secured import Access

NONCE = "librdkafka before 2.6.1 says its nonce wrongly; Apache Kafka 4.3.1 refuses it, too"
LACKS = {
    "oauthbearer": "kcat takes no token, and librdkafka of Debian is built without a way to get one",
    "scram_sha_256": NONCE, "scram_sha_512": NONCE,
}  # fmt: skip
ONE_BY_ONE = ("-X", "batch.num.messages=1", "-X", "max.in.flight=1")
LOGIN_ERROR, DENIED_ERROR = "SASL authentication error", "Topic authorization failed"


def settings(access: Access) -> list[str]:
    named = {
        "security.protocol": access.protocol, "ssl.ca.location": access.authority,
        "ssl.certificate.location": access.certificate, "ssl.key.location": access.key,
        "sasl.mechanism": access.mechanism, "sasl.username": access.user, "sasl.password": access.password,
    }  # fmt: skip
    return [word for name, value in named.items() if value for word in ("-X", f"{name}={value}")]


def write(access: Access, topic: str, values: Sequence[bytes]) -> None:
    lines = b"".join(value + b"\n" for value in values)
    run(_at(access), "-P", "-t", topic, "-p", "0", *ONE_BY_ONE, *settings(access), text=lines)


def read_values(access: Access, topic: str, count: int) -> list[bytes | None]:
    return [record.value for record in read(_at(access), topic, count, *settings(access))]


def _at(access: Access) -> Scenario:
    return Scenario(access.bootstrap, "", lambda *_, **__: None)


def name_of(error: Exception) -> str:
    """Returns which of the two errors kcat has printed, or all that it has."""
    said = str(error)
    return (
        next((name for name in (LOGIN_ERROR, DENIED_ERROR) if name in said), said)
        if isinstance(error, KcatFailed)
        else repr(error)
    )


SCENARIOS = scenarios_of(SecuredClient(write, read_values, name_of, LOGIN_ERROR, DENIED_ERROR), [*LACKS])
