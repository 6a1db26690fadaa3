"""Takes credentials out of texts that people, logs, plans or the metadata get to see: a URL may hold them."""

import re
from collections.abc import Mapping

HIDDEN = "****"

_AFTER_A_USER = re.compile(r"(://[^\s:/?@'\"]*):[^\s'\"]*@")
_WHOLE_USER = re.compile(r"://[^\s:/?@'\"]+@")
_OPTION = re.compile(r"([?&;](?:ssl)?(?:password|token|secret|access[_-]?key)=)[^&;\s'\"]*", re.IGNORECASE)

_SHOWN = frozenset({
    "type", "uri", "warehouse", "py-io-impl", "py-catalog-impl", "prefix", "namespace", "init_catalog_tables",
    "s3.endpoint", "s3.region", "glue.region", "glue.endpoint", "glue.id", "client.region", "rest.sigv4-enabled",
    "rest.signing-region", "rest.signing-name", "header.x-iceberg-access-delegation", "scope", "auth.type",
    "ssl.cabundle", "oauth2-server-uri", "s3.path-style-access", "s3.force-virtual-addressing",
})  # fmt: skip
"""The properties of a catalog that hold no secret. Every other one is hidden: a list of what is secret would miss
``header.Authorization`` and what the next catalog calls its own."""


def without_password(text: str) -> str:
    """Returns the text with **** for each password in a URL, well-formed or not, and for each password among a URL's
    options. User names stay."""
    return _OPTION.sub(rf"\g<1>{HIDDEN}", _AFTER_A_USER.sub(rf"\g<1>:{HIDDEN}@", text))


def without_credentials(text: str) -> str:
    """Returns the text as ``without_password`` does, with user names hidden as well where a URL has nothing but one: it
    may be a token, as in ``https://TOKEN@host``."""
    return _WHOLE_USER.sub(f"://{HIDDEN}@", without_password(text))


def is_secret(name: str, value: str) -> bool:
    """Returns whether a property of a catalog, or its value, may be a secret."""
    return name not in _SHOWN or without_credentials(value) != value


def shown_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties of a catalog for people: those that may hold a secret are hidden."""
    return {
        name: without_credentials(value) if name in _SHOWN else HIDDEN for name, value in properties.items()
    }
