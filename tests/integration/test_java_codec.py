"""Our codec against Kafka's own message classes: the same schema and the same bytes, for every API and version.

Java decides. The schemas catch what a description says wrongly, nullability included; the bytes catch what the codec
does wrongly with it, tagged fields included.
"""

import importlib
import pkgutil
import random
from collections.abc import Iterator

import pytest

from oracles.java_messages import JavaMessages, running_java_messages
from siltstone.kafka_protocol import messages
from siltstone.kafka_protocol.codec import decode, encode
from siltstone.kafka_protocol.notation import Message
from support.kafka_oracles import or_skip
from support.wire_messages import java_schema, random_message, to_java_json

EXAMPLES = 2

for module in pkgutil.iter_modules(messages.__path__, messages.__name__ + "."):
    importlib.import_module(module.name)

MESSAGES = sorted(Message.__subclasses__(), key=lambda message: message.__name__)

pytestmark = [pytest.mark.kafka, pytest.mark.xdist_group("kafka")]


@pytest.fixture(scope="module")
def java() -> Iterator[JavaMessages]:
    with or_skip(running_java_messages) as found:
        yield found


def versions_of(message: type[Message]) -> range:
    lowest, highest = message.versions
    return range(lowest, highest + 1)


def test_there_is_something_to_compare() -> None:
    assert len(MESSAGES) > 50
    assert sum(len(versions_of(message)) for message in MESSAGES) > 300


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_the_schema_is_java_s(java: JavaMessages, message: type[Message]) -> None:
    theirs = java.schemas(message.__name__)
    ours = {version: java_schema(message, version) for version in versions_of(message)}
    # Records are bytes to us.
    assert ours == {version: theirs[version].replace("RECORDS", "BYTES") for version in ours}


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_the_bytes_are_java_s(java: JavaMessages, message: type[Message]) -> None:
    rng = random.Random(message.__name__)
    for version in versions_of(message):
        for _ in range(EXAMPLES):
            built = random_message(message, version, rng)
            theirs = java.encode(message.__name__, version, to_java_json(built, version))
            assert encode(built, version).hex(" ") == theirs.hex(" "), (version, built)
            assert decode(message, version, memoryview(theirs)) == built
            java.decode(message.__name__, version, theirs)
