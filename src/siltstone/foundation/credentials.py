"""Takes credentials out of texts that people, logs, plans or the metadata get to see: a URL may hold them. Says which
hosts credentials may go to in clear."""

import re
from collections.abc import Mapping
from ipaddress import ip_address

HIDDEN = "****"

_OPTION_NAMES = r"([?&;](?:ssl)?(?:password|token|secret|access[_-]?key)=)"
_PASSWORD = re.compile(r"(://[^:/?@]*):.*@", re.DOTALL)
_OPTION = re.compile(_OPTION_NAMES + r"[^&]*", re.IGNORECASE)
_PASSWORD_IN_TEXT = re.compile(r"(://[^\s:/?@'\"]*):[^\s'\"]*@")
_OPTION_IN_TEXT = re.compile(_OPTION_NAMES + r"[^&;\s'\"]*", re.IGNORECASE)
_USER_IN_TEXT = re.compile(r"://[^\s:/?@'\"]+@")

VARIABLE_REFERENCE = "env:"
FILE_REFERENCE = "file:"

WAREHOUSE = "warehouse"
"""A property of a catalog that names a place of data: other programs write ``file:/folder`` for it."""

_SHOWN = frozenset({
    "type", "uri", "warehouse", "py-io-impl", "py-catalog-impl", "prefix", "namespace", "init_catalog_tables",
    "s3.endpoint", "s3.region", "glue.region", "glue.endpoint", "glue.id", "client.region", "rest.sigv4-enabled",
    "rest.signing-region", "rest.signing-name", "header.x-iceberg-access-delegation", "scope", "auth.type",
    "ssl.cabundle", "oauth2-server-uri", "s3.path-style-access", "s3.force-virtual-addressing",
})  # fmt: skip
"""The properties of a catalog that hold no secret. Every other one is hidden: a list of what is secret would miss
``header.Authorization`` and what the next catalog calls its own."""


def without_password(url: str) -> str:
    """Returns a URL, well-formed or not, with **** for its password and for secrets among its options. The whole text
    is the URL, so its password may have blanks and quotes. The user's name stays."""
    return _OPTION.sub(rf"\g<1>{HIDDEN}", _PASSWORD.sub(rf"\g<1>:{HIDDEN}@", url))


def without_credentials(text: str) -> str:
    """Returns a text with **** for the credentials of each URL in it. A URL in a text ends at a blank or a quote. The
    name of a user without a password is hidden, too: it may be a token, as in ``https://TOKEN@host``."""
    shown = _OPTION_IN_TEXT.sub(rf"\g<1>{HIDDEN}", _PASSWORD_IN_TEXT.sub(rf"\g<1>:{HIDDEN}@", text))
    return _USER_IN_TEXT.sub(f"://{HIDDEN}@", shown)


def without_url_credentials(url: str) -> str:
    """Returns a URL as ``without_password`` does, and hides the name of a user without a password."""
    return without_credentials(without_password(url))


def is_reference(value: str) -> bool:
    """Returns whether a value names the place of a secret, ``env:NAME`` or ``file:PATH``. A URL ``file://…`` does
    not."""
    return value.startswith(VARIABLE_REFERENCE) or (
        value.startswith(FILE_REFERENCE) and not value.startswith(f"{FILE_REFERENCE}//")
    )


def file_of_reference(value: str) -> str:
    """Returns the path in a value ``file:PATH``; empty for every other value."""
    return (
        value.removeprefix(FILE_REFERENCE) if is_reference(value) and value.startswith(FILE_REFERENCE) else ""
    )


def is_secret(name: str, value: str) -> bool:
    """Returns whether a property of a catalog, or its value, may be a secret. The place of one is none."""
    if is_reference(value):
        return False
    return name not in _SHOWN or without_url_credentials(value) != value


def shown_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties of a catalog for people, with **** for each one that may hold a secret."""
    return {
        name: without_url_credentials(value) if name in _SHOWN or is_reference(value) else HIDDEN
        for name, value in properties.items()
    }


def is_this_machine(host: str) -> bool:
    """Returns whether what is sent to the host stays on this machine, so that it needs no TLS."""
    try:
        return host.lower() == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
