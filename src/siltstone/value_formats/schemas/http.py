"""A schema registry over HTTP, with the requests that Confluent's and those like it answer.

It only reads: a schema by its id or GUID, the newest version of a subject, and the versions that a schema refers to;
for Protobuf with ``format=serialized``, which returns a descriptor and not the text of a ``.proto`` file. The user name
and the password come from the environment (SILTSTONE_REGISTRY_AUTH, ``user:password``) or from a file that it names
(SILTSTONE_REGISTRY_AUTH_FILE), because a URL appears in plans and logs. They go to the host of that URL alone:
redirects are not followed, and without TLS only this machine gets them. A request that fails is repeated a few
times.
"""

import base64
import os
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import quote, urlsplit

import msgspec

from siltstone.foundation.credentials import is_this_machine, without_url_credentials
from siltstone.model.limits import MIB
from siltstone.model.secret import NO_SECRET, Secret
from siltstone.runtime.clock import Clock, SystemClock
from siltstone.runtime.secret_sources import REGISTRY_AUTH_VARIABLE, SecretNotReadable, secret_of_variables
from siltstone.value_formats.failures import FormatRefused, RegistryNotReachable, SchemaUnknown
from siltstone.value_formats.schemas.port import SchemaCache
from siltstone.value_formats.value_format import FormatKind, Schema
from siltstone.value_formats.wire import SchemaName

ANSWER_BYTES_MAX = 16 * MIB
ANSWER_SECONDS_MAX = 20
TRIES = 3
PAUSE_MS = 500
_IMPORTS_MAX = 1_000
_NOT_FOUND = 404
_OK = 200
_ELSEWHERE = range(300, 400)
_KINDS = {"AVRO": FormatKind.AVRO, "JSON": FormatKind.JSON, "PROTOBUF": FormatKind.PROTOBUF}


class _Reference(msgspec.Struct):
    subject: str
    version: int


class _Answer(msgspec.Struct, rename="camel"):
    schema: str
    schema_type: str = "AVRO"
    references: list[_Reference] = []
    id: int = -1


class HttpRegistry:
    """The registry at a URL."""

    def __init__(
        self, url: str, environment: Mapping[str, str] = os.environ, clock: Clock | None = None
    ) -> None:
        """Raises FormatRefused for a URL that is none, or holds a password."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise FormatRefused(
                f"{without_url_credentials(url)!r} is no schema registry: write http://HOST:PORT, https://… or file:///FOLDER"
            )
        if "@" in parts.netloc:
            raise FormatRefused(
                "the URL of the schema registry has a password: put user:password into "
                f"{REGISTRY_AUTH_VARIABLE}, or into a file that {REGISTRY_AUTH_VARIABLE}_FILE names"
            )
        self._url = url.rstrip("/")
        self._parts = parts
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
        named = environment.get(f"{REGISTRY_AUTH_VARIABLE}_FILE")
        self._file = {f"{REGISTRY_AUTH_VARIABLE}_FILE": named} if named else {}
        try:
            self._login = auth = secret_of_variables(environment, REGISTRY_AUTH_VARIABLE) or NO_SECRET
        except SecretNotReadable as refusal:
            raise FormatRefused(str(refusal)) from refusal
        if auth and parts.scheme == "http" and not is_this_machine(parts.hostname):
            raise FormatRefused(
                f"the password of {REGISTRY_AUTH_VARIABLE} is not sent to {parts.hostname} without TLS: write https://…"
            )
        self._clock = clock or SystemClock()
        self._cache = SchemaCache()

    @property
    def url(self) -> str:
        return self._url

    def _auth(self) -> Secret:
        """Returns ``user:password``. A file is read for each request, so a changed password is used at once. Raises
        SecretNotReadable."""
        return secret_of_variables(self._file, REGISTRY_AUTH_VARIABLE) or self._login

    def schema(self, name: SchemaName) -> Schema:
        path = f"/schemas/{'ids' if isinstance(name, int) else 'guids'}/{name}"
        return self._cache.of(name, lambda: self._complete(self._get(path), path))

    def latest(self, subject: str) -> tuple[int, Schema]:
        path = f"/subjects/{quote(subject, safe='')}/versions/latest"
        answer = self._get(path)
        return answer.id, self._complete(answer, path)

    def _complete(self, answer: _Answer, path: str) -> Schema:
        """Returns the schema with what it refers to."""
        kind = _KINDS.get(answer.schema_type.upper())
        if kind is None:
            raise SchemaUnknown(f"{self._url}{path} is of the unknown type {answer.schema_type}")
        found: dict[tuple[str, int], str] = {}
        self._add_imports(answer.references, kind, found)
        return Schema(kind, self._text(answer, kind, path), tuple(found.values()))

    def _add_imports(
        self, references: list[_Reference], kind: FormatKind, found: dict[tuple[str, int], str]
    ) -> None:
        for each in references:
            key = (each.subject, each.version)
            if key in found:
                continue
            if len(found) >= _IMPORTS_MAX:
                raise SchemaUnknown(f"a schema of {self._url} refers to more than {_IMPORTS_MAX} others")
            path = f"/subjects/{quote(each.subject, safe='')}/versions/{each.version}"
            answer = self._get(path)
            self._add_imports(answer.references, kind, found)
            found[key] = self._text(answer, kind, path)

    def _text(self, answer: _Answer, kind: FormatKind, path: str) -> str:
        return self._get(f"{path}?format=serialized").schema if kind is FormatKind.PROTOBUF else answer.schema

    def _get(self, path: str) -> _Answer:
        for attempt in range(TRIES):
            if attempt:
                self._clock.block_ms(PAUSE_MS)
            try:
                status, body = self._ask(path)
            except SecretNotReadable as refusal:
                raise RegistryNotReachable(
                    f"the schema registry {self._url} cannot be asked: {refusal}"
                ) from refusal
            except (OSError, HTTPException) as failure:
                trouble: str = str(failure) or type(failure).__name__
                continue
            if status == _NOT_FOUND:
                raise SchemaUnknown(f"the schema registry {self._url} has no {path}")
            if status == _OK:
                return self._read(path, body)
            trouble = f"it answers {status} to GET {path}"
            if status in _ELSEWHERE:
                trouble += "; that is not followed, so name the registry itself"
            if status < 500:
                break
        raise RegistryNotReachable(f"the schema registry {self._url} cannot be asked: {trouble}")

    def _read(self, path: str, body: bytes) -> _Answer:
        try:
            return msgspec.json.decode(body, type=_Answer)
        except msgspec.MsgspecError as cause:
            raise RegistryNotReachable(
                f"{self._url} does not answer GET {path} as a schema registry does: {cause}"
            ) from cause

    def _ask(self, path: str) -> tuple[int, bytes]:
        """Returns the status and the body. A connection for each request: a plan asks for a handful."""
        parts = self._parts
        assert parts.hostname is not None
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.hostname, parts.port, timeout=ANSWER_SECONDS_MAX)
        try:
            auth = self._auth().revealed()
            login = {"Authorization": f"Basic {base64.b64encode(auth.encode()).decode()}"} if auth else {}
            connection.request("GET", parts.path.rstrip("/") + path, headers=self._headers | login)
            answer: HTTPResponse = connection.getresponse()
            body = answer.read(ANSWER_BYTES_MAX + 1)
            if len(body) > ANSWER_BYTES_MAX:
                raise HTTPException(f"the answer to GET {path} has more than {ANSWER_BYTES_MAX} bytes")
            return answer.status, body
        finally:
            connection.close()
