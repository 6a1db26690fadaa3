"""Apache Kafka with one node. Every scenario has to pass there first, so that its failure elsewhere means something."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conformance.brokers.broker import Broker, BrokerSettings
from conformance.brokers.broker_of_processes import broker_of_processes
from oracles.apache_kafka import prepare_apache_kafka, started


@contextmanager
def open_apache_kafka(settings: BrokerSettings, folder: Path) -> Iterator[Broker]:
    prepared = prepare_apache_kafka(folder, _properties(settings))
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
