"""Apache Kafka with one node. Every scenario has to pass there first, so that its failure elsewhere means something."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from conformance.brokers.broker import Broker, BrokerSettings
from conformance.brokers.broker_of_processes import broker_of_processes
from conformance.secured import PROTOCOLS, Grounds, properties_of_kafka
from oracles.apache_kafka import PreparedKafka, prepare_apache_kafka, started
from oracles.broker_process import HOST


@contextmanager
def open_apache_kafka(settings: BrokerSettings, folder: Path) -> Iterator[Broker]:
    prepared = prepare_apache_kafka(folder, _properties(settings))
    if settings.grounds is not None:
        prepared = _secured(prepared, settings.grounds)
    with broker_of_processes(lambda: started(prepared)) as broker:
        yield broker


def _properties(settings: BrokerSettings) -> dict[str, str]:
    return {
        "group.initial.rebalance.delay.ms": str(settings.group_initial_rebalance_delay_ms),
        "group.min.session.timeout.ms": str(settings.group_min_session_timeout_ms),
        "connections.max.idle.ms": str(settings.connections_max_idle_ms),
        "broker.session.timeout.ms": "3000",  # a killed broker is itself again after that
        **{name.rpartition(".")[2].replace("_", "."): value for name, value in settings.more.items()},
    }


def _secured(prepared: PreparedKafka, grounds: Grounds) -> PreparedKafka:
    """Adds the secured listeners to those that were prepared, with their settings."""
    file = Path(prepared.command[-1])
    lines = dict(line.split("=", 1) for line in file.read_text().splitlines())
    added = ",".join(f"{name}://{HOST}:{port}" for name, port in grounds.ports.items())
    protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **PROTOCOLS}
    lines["listeners"] += f",{added}"
    lines["listener.security.protocol.map"] = ",".join(f"{name}:{each}" for name, each in protocols.items())
    lines |= properties_of_kafka(grounds)
    file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    java, *rest = prepared.command
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={grounds.key_set.as_uri()}"
    return msgspec.structs.replace(prepared, command=(java, allowed, *rest))
