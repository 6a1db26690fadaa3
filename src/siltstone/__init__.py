"""Siltstone: a Kafka-compatible stream store on object storage, with its data pipeline on Apache Spark.

``siltstone.Broker`` is a broker inside this process, ``siltstone.KeyedView`` a topic as a mapping of its keys. They are
loaded when they are first asked for, so that Spark's workers, which import this package too, do not carry a server.
"""

from typing import TYPE_CHECKING

from siltstone.model.version import VERSION

if TYPE_CHECKING:
    from siltstone.kafka_client.keyed_view import KeyedView
    from siltstone.server.embedded import Broker

__all__ = ["Broker", "KeyedView", "__version__"]

__version__ = VERSION


def __getattr__(name: str) -> object:
    if name == "Broker":
        from siltstone.server.embedded import Broker  # noqa: PLC0415

        return Broker
    if name == "KeyedView":
        from siltstone.kafka_client.keyed_view import KeyedView  # noqa: PLC0415

        return KeyedView
    raise AttributeError(f"module 'siltstone' has no attribute {name!r}")
