"""A schema registry for tests: a small HTTP server that answers as Confluent's documents say, and what a serializer
would write with it."""

import base64
import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import UUID

import fastavro
from google.protobuf import descriptor_pb2, message_factory

from siltstone.value_formats.descriptors import message_of
from siltstone.value_formats.schemas import opening
from siltstone.value_formats.value_format import FormatKind, Schema

Field = descriptor_pb2.FieldDescriptorProto


class SchemaRegistry:
    """``fails``: the server answers 503 to everything. ``asked`` are the paths of all requests."""

    def __init__(self) -> None:
        self.url = ""
        self.fails = False
        self.asked: list[str] = []
        self._schemas: dict[int, Schema] = {}
        self._subjects: dict[str, list[int]] = {}

    def add(self, subject: str, schema: Any, schema_id: int | None = None) -> int:
        """Registers an Avro schema (a dict), or a Schema, as the newest of the subject. Returns its id."""
        if not isinstance(schema, Schema):
            schema = Schema(FormatKind.AVRO, json.dumps(schema))
        schema_id = schema_id or 100 + len(self._schemas)
        self._schemas[schema_id] = schema
        self._subjects.setdefault(subject, []).append(schema_id)
        return schema_id

    def forget(self, schema_id: int) -> None:
        """Deletes a schema, also from the memory of this process."""
        del self._schemas[schema_id]
        opening._shared.pop(self.url, None)

    def avro(self, schema_id: int, value: Any) -> bytes:
        """A value as a serializer writes it."""
        out = BytesIO()
        fastavro.schemaless_writer(out, json.loads(self._schemas[schema_id].text), value)
        return struct.pack(">bI", 0, schema_id) + out.getvalue()

    def guid(self, schema_id: int) -> UUID:
        """The GUID of a schema: here its id in another form."""
        return UUID(int=schema_id)

    def header(self, schema_id: int, path: bytes = b"") -> bytes:
        """Returns what a newer serializer writes into a header, before no value [confluent-kafka:
        SchemaId.guid_to_bytes]."""
        return b"\1" + self.guid(schema_id).bytes + path

    def protobuf(self, schema_id: int, message: str = "", path: bytes = b"\0", **fields: Any) -> bytes:
        kind = message_factory.GetMessageClass(message_of(self._schemas[schema_id], message))
        return struct.pack(">bI", 0, schema_id) + path + kind(**fields).SerializeToString()

    def answer(self, path: str) -> Any:
        parts = [unquote(each) for each in urlsplit(path).path.strip("/").split("/")]
        match parts:
            case ["schemas", "ids", number]:
                return self._described(int(number))
            case ["schemas", "guids", guid]:
                return self._described(UUID(guid).int)
            case ["subjects", subject, "versions", "latest"] if subject in self._subjects:
                return self._described(self._subjects[subject][-1])
        return None

    def _described(self, schema_id: int) -> Any:
        found = self._schemas.get(schema_id)
        return found and {"id": schema_id, "schema": found.text, "schemaType": found.kind.value.upper()}


@contextmanager
def schema_registry() -> Iterator[SchemaRegistry]:
    """A registry on a free port of 127.0.0.1."""
    registry = SchemaRegistry()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            registry.asked.append(self.path)
            found = registry.answer(self.path)
            body = json.dumps(found or {"error_code": 40403}).encode()
            self.send_response(503 if registry.fails else 200 if found else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        opening._shared.pop(registry.url, None)


def record(**fields: Any) -> dict[str, Any]:
    """An Avro record whose fields may be null: ``record(id="long")``."""
    parts = [{"name": name, "type": ["null", kind], "default": None} for name, kind in fields.items()]
    return {"type": "record", "name": "R", "fields": parts}


def protobuf_schema(**fields: int) -> Schema:
    """A file with the messages ``t.Other``, which is empty, and ``t.M``, whose fields have these types."""
    return _protobuf_file(["Other"], fields)


def protobuf_message(**fields: int) -> Schema:
    """A file with the message ``t.M`` alone."""
    return _protobuf_file([], fields)


def _protobuf_file(others: list[str], fields: dict[str, int]) -> Schema:
    file = descriptor_pb2.FileDescriptorProto(name="m.proto", package="t", syntax="proto3")
    for each in others:
        file.message_type.add(name=each)
    message = file.message_type.add(name="M")
    for number, (name, kind) in enumerate(fields.items(), 1):
        message.field.append(Field(name=name, number=number, type=kind, label=Field.LABEL_OPTIONAL))
    return Schema(FormatKind.PROTOBUF, base64.b64encode(file.SerializeToString()).decode())
