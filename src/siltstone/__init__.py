"""Siltstone: a Kafka-compatible stream store on object storage, with its data pipeline on Apache Spark.

``siltstone.Broker`` is a broker inside this process, ``siltstone.KeyedView`` a topic as a mapping of its keys,
``siltstone.open_store`` a store to look at and ``siltstone.maintenance`` what keeps it in order, with no broker. They
are loaded when they are first asked for, so that Spark's workers, which import this package too, do not carry a server.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from siltstone.model.version import VERSION

if TYPE_CHECKING:
    from siltstone import maintenance
    from siltstone.kafka_client.keyed_view import KeyedView
    from siltstone.server.embedded import Broker
    from siltstone.server.opening import open_store

__all__ = ["Broker", "KeyedView", "__version__", "maintenance", "open_store"]

__version__ = VERSION


def __getattr__(name: str) -> object:
    if name == "Broker":
        from siltstone.server.embedded import Broker  # noqa: PLC0415

        return Broker
    if name == "KeyedView":
        from siltstone.kafka_client.keyed_view import KeyedView  # noqa: PLC0415

        return KeyedView
    if name == "open_store":
        from siltstone.server.opening import open_store  # noqa: PLC0415

        return open_store
    if name == "maintenance":
        return import_module("siltstone.maintenance")
    raise AttributeError(f"module 'siltstone' has no attribute {name!r}")
