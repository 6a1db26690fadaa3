"""tools/kafka-messages: what it makes of a schema, and that the modules committed are what it writes."""

import json
import types
import zipfile
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

from oracles.java_artifacts import APACHE_KAFKA, JavaArtifactsUnavailable, fetch_jars

ROOT = Path(__file__).parents[2]
MESSAGES = ROOT / "src" / "siltstone" / "kafka_protocol" / "messages"

REQUEST = """
// A licence, which is not taken over.
{
  "apiKey": 12, "type": "request", "name": "HeartbeatRequest",
  // Nor is this.
  "validVersions": "1-4", "flexibleVersions": "3+",
  "fields": [
    { "name": "GroupId", "type": "string", "versions": "0+", "about": "Nor this." },
    { "name": "MaxWaitMs", "type": "int64", "versions": "2-3", "default": "0x7fffffff" },
    { "name": "Gone", "type": "int8", "versions": "0" },
    { "name": "Reason", "type": "string", "versions": "0+", "nullableVersions": "2+", "default": "null" },
    { "name": "Topics", "type": "[]Topic", "versions": "3+", "taggedVersions": "3+", "tag": 0, "fields": [
      { "name": "TopicId", "type": "uuid", "versions": "0+" },
      { "name": "IsOn", "type": "bool", "versions": "4+", "default": "true" }
    ]}
  ]
}
"""
RESPONSE = {"apiKey": 12, "type": "response", "name": "HeartbeatResponse", "validVersions": "1-4"}
RESPONSE |= {"flexibleVersions": "none", "fields": []}

WRITTEN = '''"""Heartbeat: report that a member of a consumer group is alive; the response reports rebalances.

Written by tools/kafka-messages.
"""

from typing import Annotated, ClassVar

from siltstone.kafka_protocol.api_key import ApiKey
from siltstone.kafka_protocol.notation import (
    NO_UUID,
    Int64,
    Message,
    NullableSince,
    Structure,
    Tag,
    Uuid,
    Versions,
)


class Topic(Structure, frozen=True, kw_only=True):
    topic_id: Uuid = NO_UUID
    is_on: Annotated[bool, Versions(4)] = True


class HeartbeatRequest(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.HEARTBEAT
    versions: ClassVar[tuple[int, int]] = (1, 4)
    flexible_since: ClassVar[int | None] = 3

    group_id: str = ""
    max_wait_ms: Annotated[Int64, Versions(2, 3)] = 0x7FFFFFFF
    reason: Annotated[str | None, NullableSince(2)] = None
    topics: Annotated[list[Topic], Versions(3), Tag(0)] = []


class HeartbeatResponse(Message, frozen=True, kw_only=True):
    api_key: ClassVar[ApiKey] = ApiKey.HEARTBEAT
    versions: ClassVar[tuple[int, int]] = (1, 4)
    flexible_since: ClassVar[int | None] = None
'''


@pytest.fixture(scope="module")
def tool() -> Any:
    loader = SourceFileLoader("kafka_messages", str(ROOT / "tools" / "kafka-messages"))
    module = types.ModuleType(loader.name)
    module.__file__ = loader.path
    exec(compile(loader.get_data(loader.path), loader.path, "exec"), module.__dict__)
    return module


def test_what_it_makes_of_a_schema(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = tmp_path / "clients.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("common/message/HeartbeatRequest.json", REQUEST)
        archive.writestr("common/message/HeartbeatResponse.json", json.dumps(RESPONSE))
    monkeypatch.setattr(tool, "PURPOSES", {"Heartbeat": tool.PURPOSES["Heartbeat"]})
    tool.main(jar, tmp_path)
    assert (tmp_path / "heartbeat.py").read_text() == WRITTEN
    assert (
        "ApiKey.HEARTBEAT: (HeartbeatRequest, HeartbeatResponse)" in (tmp_path / "catalogue.py").read_text()
    )


@pytest.mark.kafka
@pytest.mark.xdist_group("kafka")
@pytest.mark.timeout(600)
def test_the_modules_committed_are_what_it_writes(tool: Any, tmp_path: Path) -> None:
    try:
        jars = fetch_jars(APACHE_KAFKA)
    except JavaArtifactsUnavailable as reason:
        pytest.skip(str(reason))
    (jar,) = (path for path in jars if path.name.startswith("kafka-clients-"))
    tool.main(jar, tmp_path)
    written = {path.name: path.read_text() for path in tmp_path.iterdir()}
    committed = {path.name: path.read_text() for path in MESSAGES.glob("*.py") if path.name != "__init__.py"}
    assert written == committed
