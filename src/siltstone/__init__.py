"""Siltstone: a Kafka-compatible stream store on object storage, with its data pipeline on Apache Spark.

``siltstone.Broker`` is a broker inside this process. It is loaded when it is first asked for, so that Spark's workers,
which import this package too, do not carry a server.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from siltstone.server.embedded import Broker

__all__ = ["Broker", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name == "Broker":
        from siltstone.server.embedded import Broker  # noqa: PLC0415

        return Broker
    raise AttributeError(f"module 'siltstone' has no attribute {name!r}")
