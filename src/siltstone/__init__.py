"""Siltstone: a Kafka-compatible stream store on object storage, with its data pipeline on Apache Spark.

The public names, each of which is imported on first use, because Spark's workers import this package too and must
not load a server:

===============  ==============================================================================================
``Broker``       a broker inside this process, for tests and notebooks
``KeyedView``    the newest value of each key of a topic, as a mapping that follows the topic
``open_store``   opens the metadata and the buckets of a store; no broker is started
``maintenance``  plans and runs compaction, retention and garbage collection on an opened store
===============  ==============================================================================================
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
