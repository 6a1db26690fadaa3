"""Kafka's own message classes as a codec: the JSON form of a message (as its converters have it) into bytes and back.
A message has Kafka's name: ``MetadataRequest``, ``ConsumerProtocolSubscription``, ``RequestHeader``, and the
records of ``__transaction_state``, of groups of KIP-848 and of share groups: ``TransactionLogKey``,
``ConsumerGroupMetadataValue``. In JSON, fields are in camelCase, bytes and records in base64, uuids in Kafka's own
base64. The Java side writes ``records`` as empty text, so a decoder has to compare them in another way."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from py4j.protocol import Py4JJavaError

from oracles.java_artifacts import APACHE_KAFKA, fetch_jars
from oracles.java_machine import JavaMachine, running_java_machine


class JavaRefuses(Exception):
    """Java's class does not take this message; the text is its own."""


class ApiDescription(msgspec.Struct, frozen=True):
    api_key: int
    name: str
    """The name of an API as its classes begin: CreateTopics."""
    lowest_version: int
    highest_version: int
    highest_stable_version: int


class JavaMessages:
    """A codec whose calls cost the time of five or six calls into Java each, about a millisecond."""

    def __init__(self, machine: JavaMachine) -> None:
        self._classes = machine.classes.org.apache.kafka.common
        self._transaction_records = machine.classes.org.apache.kafka.coordinator.transaction.generated
        self._group_records = machine.classes.org.apache.kafka.coordinator.group.generated
        self._read_tree = machine.classes.com.fasterxml.jackson.databind.ObjectMapper().readTree
        self._to_accessor = self._classes.protocol.MessageUtil.toByteBufferAccessor
        self._accessor = self._classes.protocol.ByteBufferAccessor
        self._wrap = machine.classes.java.nio.ByteBuffer.wrap
        self._known: dict[str, tuple[Any, Any, Any]] = {}

    def apis(self) -> list[ApiDescription]:
        """Returns all APIs that a broker serves to clients."""
        broker = self._classes.message.ApiMessageType.ListenerType.BROKER
        types = self._classes.message.ApiMessageType.values()
        return [_description(each) for each in types if each.listeners().contains(broker)]

    def header_versions(self, api_key: int, version: int) -> tuple[int, int]:
        """Returns the versions of the headers of a request and its response."""
        api = self._classes.message.ApiMessageType.fromApiKey(api_key)
        return api.requestHeaderVersion(version), api.responseHeaderVersion(version)

    def schemas(self, name: str) -> dict[int, str]:
        """Returns the fields of each version on the wire, in the words of Java's classes: field names in snake case
        with their types in their order. Of tagged fields it returns only the numbers."""
        found = getattr(self._classes.message, f"{name}Data").SCHEMAS
        texts = {
            version: str(schema.toString()) for version, schema in enumerate(found) if schema is not None
        }
        return {version: re.sub(r"(\d+) -> [\w.]+@[0-9a-f]+", r"\1", text) for version, text in texts.items()}

    def encode(self, name: str, version: int, fields: dict[str, Any]) -> bytes:
        """Encodes a message. Raises JavaRefuses."""
        _, read, _ = self._class(name)
        try:
            message = read(self._read_tree(json.dumps(fields)), version)
            return bytes(self._to_accessor(message, version).buffer().array())
        except Py4JJavaError as failure:
            raise JavaRefuses(f"{name} version {version}: {failure.java_exception.toString()}") from failure

    def decode(self, name: str, version: int, body: bytes) -> dict[str, Any]:
        """Decodes a message. Raises JavaRefuses, also for bytes that are left over."""
        make, _, write = self._class(name)
        buffer = self._wrap(body)
        try:
            message = make()
            message.read(self._accessor(buffer), version)
            found: dict[str, Any] = json.loads(write(message, version, True).toString())
        except Py4JJavaError as failure:
            raise JavaRefuses(f"{name} version {version}: {failure.java_exception.toString()}") from failure
        if left := buffer.remaining():
            raise JavaRefuses(f"{name} version {version}: {left} of {len(body)} bytes are left over")
        return found

    def _class(self, name: str) -> tuple[Any, Any, Any]:
        if name not in self._known:
            package, title = self._classes.message, f"{name}Data"
            if name.startswith("TransactionLog"):
                package, title = self._transaction_records, name
            elif name.startswith(("ConsumerGroup", "ShareGroup")) and name.endswith(("Key", "Value")):
                package, title = self._group_records, name
            converter = getattr(package, f"{title}JsonConverter")
            made = getattr(package, title)
            self._known[name] = (made, converter.read, converter.write)
        return self._known[name]


def _description(api: Any) -> ApiDescription:
    # The enumeration says CREATE_TOPICS, its messages are CreateTopics…: only the class itself tells.
    name = api.newRequest().getClass().getSimpleName().removesuffix("RequestData")
    stable = api.highestSupportedVersion(False)
    return ApiDescription(
        api.apiKey(), name, api.lowestSupportedVersion(), api.highestSupportedVersion(True), stable
    )


@contextmanager
def running_java_messages() -> Iterator[JavaMessages]:
    """Starts the codec. Raises JavaArtifactsUnavailable."""
    with running_java_machine(fetch_jars(APACHE_KAFKA)) as machine:
        yield JavaMessages(machine)
