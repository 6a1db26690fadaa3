"""A broker that was started by others: ``--bootstrap``."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conformance.brokers.broker import Broker, BrokerFailed, BrokerSettings, OpenBroker


class GivenBroker:
    """The address of the broker, which cannot be killed."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def kill(self) -> None:
        raise BrokerFailed("a broker given by --bootstrap is not killed")

    def start(self) -> None:
        raise BrokerFailed("a broker given by --bootstrap is not started")


def given_broker(bootstrap: str) -> OpenBroker:
    @contextmanager
    def open_broker(settings: BrokerSettings, folder: Path) -> Iterator[Broker]:
        del settings, folder
        yield GivenBroker(bootstrap)

    return open_broker
