"""The clients, which are the columns of the matrix, each with the command of its driver."""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from conformance.features import FEATURES, TOOLS, Feature
from conformance.installing import NODE_MODULES, missing_java, missing_kcat, missing_node

DRIVERS = Path(__file__).parent / "drivers"


def _nothing_missing() -> str:
    return ""


class Client(msgspec.Struct, frozen=True):
    """Returns why the client cannot run on this machine; empty if it can. Installs what an ordinary package manager
    has."""

    id: str
    title: str
    command: tuple[str, ...]
    features: tuple[Feature, ...] = FEATURES
    environment: Mapping[str, str] = {}
    missing: Callable[[], str] = _nothing_missing


def _python(module: str) -> tuple[str, ...]:
    return (sys.executable, "-m", f"conformance.drivers.{module}")


CLIENTS: tuple[Client, ...] = (
    Client("confluent", "confluent-kafka", _python("confluent")),
    Client("kcat", "kcat", _python("kcat"), missing=missing_kcat),
    Client("kafka-python", "kafka-python", _python("kafka_python")),
    Client("aiokafka", "aiokafka", _python("aiokafka_driver")),
    Client(
        "kafkajs",
        "kafkajs",
        ("node", str(DRIVERS / "kafkajs" / "driver.js")),
        environment={"NODE_PATH": str(NODE_MODULES), "KAFKAJS_NO_PARTITIONER_WARNING": "1"},
        missing=missing_node,
    ),
    Client("java", "Java client", _python("java"), missing=missing_java),
    Client("tools", "Kafka's tools", _python("kafka_tools"), features=TOOLS, missing=missing_java),
)

BY_ID = {client.id: client for client in CLIENTS}
