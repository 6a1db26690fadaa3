"""A folder of schemas as a registry: for tests, for topics without a registry, and for a copy of a registry.

====================  ==============================================================================================
file                  holds
====================  ==============================================================================================
``ID.avsc``           an Avro schema
``ID.json``           a JSON Schema
``ID.desc``           a Protobuf FileDescriptorSet, as ``protoc --include_imports --descriptor_set_out`` writes it
``subjects.json``     ``{"flights-value": [1, 2]}``: the ids of each subject, the newest last
====================  ==============================================================================================

Values that name a schema by its GUID need files of that name, ``GUID.avsc``.
"""

from pathlib import Path

import msgspec

from siltstone.value_formats.descriptors import schema_of_descriptor_set
from siltstone.value_formats.failures import (
    FormatRefused,
    RegistryNotReachable,
    SchemaMalformed,
    SchemaUnknown,
)
from siltstone.value_formats.schemas.port import SchemaCache
from siltstone.value_formats.value_format import FormatKind, Schema
from siltstone.value_formats.wire import SchemaName

_KINDS = {".avsc": FormatKind.AVRO, ".json": FormatKind.JSON, ".desc": FormatKind.PROTOBUF}


class FolderRegistry:
    """The schemas of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cache = SchemaCache()

    @property
    def url(self) -> str:
        return self._folder.absolute().as_uri()

    def schema(self, name: SchemaName) -> Schema:
        return self._cache.of(name, lambda: self._read(name))

    def _read(self, name: SchemaName) -> Schema:
        for suffix in _KINDS:
            path = self._folder / f"{name}{suffix}"
            if path.is_file():
                return read_schema_file(path)
        if not self._folder.is_dir():
            raise RegistryNotReachable(f"the folder of schemas {self._folder} is not there")
        raise SchemaUnknown(
            f"the folder {self._folder} has no schema {name}: put {name}.avsc, .json or .desc there"
        )

    def latest(self, subject: str) -> tuple[int, Schema]:
        path = self._folder / "subjects.json"
        try:
            ids = msgspec.json.decode(path.read_bytes(), type=dict[str, list[int]]).get(subject)
        except FileNotFoundError:
            raise SchemaUnknown(
                f'{path} is not there: write it, such as {{"{subject}": [1]}}, or name the schema'
            ) from None
        except OSError as failure:
            raise RegistryNotReachable(f"{path} cannot be read: {failure.strerror}") from failure
        except msgspec.MsgspecError as cause:
            raise SchemaMalformed(f'{path} is not like {{"{subject}": [1, 2]}}: {cause}') from cause
        if not ids:
            raise SchemaUnknown(f"{path} has no subject {subject!r}")
        return ids[-1], self.schema(ids[-1])


def read_schema_file(path: Path) -> Schema:
    """Returns the schema in a file; the suffix says its kind. Raises FormatRefused, SchemaMalformed,
    RegistryNotReachable."""
    kind = _KINDS.get(path.suffix)
    if kind is None:
        raise FormatRefused(f"{path} is no schema: its name ends in none of {', '.join(_KINDS)}")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise FormatRefused(f"the schema {path} is not there") from None
    except OSError as failure:
        raise RegistryNotReachable(f"the schema {path} cannot be read: {failure.strerror}") from failure
    if kind is FormatKind.PROTOBUF:
        return schema_of_descriptor_set(data)
    try:
        return Schema(kind, data.decode())
    except UnicodeDecodeError as cause:
        raise SchemaMalformed(f"the schema {path} is not text in UTF-8") from cause
