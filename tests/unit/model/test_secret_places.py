"""Each secret and each place where it must not be: texts of what holds it, in any depth, and pickles."""

import base64
import pickle
import pprint
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from siltstone.kafka_client.client_settings import settings_of_mapping
from siltstone.kafka_client.connection import Security
from siltstone.kafka_client.tokens import TokenSource, _issued_token
from siltstone.model.errors import InvalidRequest
from siltstone.runtime.blocking import InlineCalls
from siltstone.runtime.clock import ManualClock
from siltstone.server.admin.access import AdminAccess, MetricsToken
from siltstone.spark.client_options import take_client_options
from siltstone.value_formats.schemas.http import HttpRegistry

PLANTED = "pl4nted-secret-of-a-test"
IN_BASE64 = base64.b64encode(f"ada:{PLANTED}".encode())
BASIC = {"security.protocol": "SASL_SSL", "sasl.username": "ada", "sasl.password": PLANTED}
MUTUAL = {
    "security.protocol": "SSL", "ssl.certificate.location": "c", "ssl.key.location": "k", "ssl.key.password": PLANTED,
}  # fmt: skip
ISSUED = {
    "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.token.endpoint.url": "https://issuer.example/token",
    "sasl.oauthbearer.client.id": "loader", "sasl.oauthbearer.client.secret": PLANTED,
}  # fmt: skip


def token_source(_: Path) -> Any:
    source = TokenSource(ManualClock())
    settings = settings_of_mapping(ISSUED, "the test")
    source._kept[settings] = _issued_token(b'{"access_token": "%s"}' % PLANTED.encode(), float("inf"))
    assert source.token(settings) == PLANTED
    return source


def metrics_token(folder: Path) -> Any:
    file = folder / "token"
    file.write_text(PLANTED)
    file.chmod(0o600)
    return AdminAccess(token=MetricsToken(file, InlineCalls(), ManualClock()))


HOLDERS: dict[str, Callable[[Path], Any]] = {
    "a password": lambda _: settings_of_mapping(BASIC, "the test"),
    "the password of a key": lambda _: settings_of_mapping(MUTUAL, "the test"),
    "the secret of a client of an issuer": lambda _: settings_of_mapping(ISSUED, "the test"),
    "a client with a password": lambda _: Security(settings_of_mapping(BASIC, "the test")),
    "a password among options of Spark": lambda _: take_client_options(
        {f"kafka.{name}": value for name, value in BASIC.items()}
    ),
    "the secret of a client among options of Spark": lambda _: take_client_options(
        {f"kafka.{name}": value for name, value in ISSUED.items()}
    ),
    "a token of an issuer": token_source,
    "the token for metrics": metrics_token,
    "the password of a registry": lambda _: HttpRegistry(
        "https://registry.example", {"SILTSTONE_REGISTRY_AUTH": f"ada:{PLANTED}"}
    ),
}
"""What holds a secret, by the secret."""


def insides(value: Any, depth: int = 4) -> list[Any]:
    """The value and what it holds, as a debugger or a traceback with values shows it."""
    if depth == 0 or isinstance(value, str | bytes | int | float | None):
        return [value]
    if type(value).__name__ == "Secret":
        return [value]
    parts = [*value.keys(), *value.values()] if isinstance(value, dict) else []
    if isinstance(value, tuple | list):
        parts = list(value)
    parts += vars(value).values() if hasattr(value, "__dict__") else []
    fields = getattr(value, "__struct_fields__", ())
    parts += [getattr(value, name) for name in fields]
    return [value, *(each for part in parts for each in insides(part, depth - 1))]


@pytest.mark.parametrize("holder", HOLDERS)
def test_sp01_no_text_of_what_holds_a_secret_shows_it(holder: str, tmp_path: Path) -> None:
    for each in insides(HOLDERS[holder](tmp_path)):
        for text in (repr(each), str(each), f"{each}", pprint.pformat(each)):
            assert PLANTED not in text, f"{type(each).__name__}: {text[:200]}"
            assert IN_BASE64.decode() not in text, "in base64"


@pytest.mark.parametrize("holder", [each for each in HOLDERS if "options of Spark" not in each])
def test_sp01_what_holds_a_secret_cannot_be_pickled_or_leaves_it_out(holder: str, tmp_path: Path) -> None:
    """Literal options of Spark travel in tasks that have to log in (``unit/spark/test_client_options.py``)."""
    held = HOLDERS[holder](tmp_path)
    try:
        pickled = pickle.dumps(held)
    except (InvalidRequest, TypeError, AttributeError, pickle.PicklingError):
        return
    assert PLANTED.encode() not in pickled and IN_BASE64 not in pickled
