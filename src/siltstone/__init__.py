"""Siltstone: a Kafka-compatible stream store on object storage, with its data pipeline on Apache Spark.

The public names. Each is imported on first use, because Spark's workers import this package too and must not load a
server:

================  ==============================================================================================
``Broker``        a broker inside this process, for tests and notebooks
``BucketFaults``  what the bucket of a ``Broker`` does wrong, for tests
``KeyedView``     the newest value of each key of a topic, as a mapping that follows the topic
``open_store``    opens the metadata and the buckets of a store; no broker is started
``metadata``      the metadata of a store as tables, now or as they were: ``siltstone.metadata(store).objects``
``scan``          the records of topics as Arrow, pandas or Polars, read straight from the buckets
``spark``         ``spark.session()``: a Spark that reads topics, also without a Java of yours; ``spark.read(…)``
``maintenance``   plans and runs compaction, retention and garbage collection on an opened store
================  ==============================================================================================
"""

import gc
import types
from importlib import import_module
from typing import TYPE_CHECKING

from siltstone import metadata
from siltstone.model.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from pathlib import Path

    from siltstone import maintenance, spark
    from siltstone.kafka_client.keyed_view import KeyedView
    from siltstone.metadata_tables.catalog import MetadataTables
    from siltstone.object_store.faults import BucketFaults
    from siltstone.offline.opening.store import Store
    from siltstone.scanning.from_python import scan
    from siltstone.server.embedded import Broker
    from siltstone.spark.opening import open_store

__all__ = [
    "Broker", "BucketFaults", "KeyedView", "__version__", "maintenance", "metadata", "open_store", "scan", "spark",
]  # fmt: skip

__version__ = VERSION


class _MetadataFunction(types.ModuleType):
    """The package ``siltstone.metadata``, which is also the function of this name: as a module of its own name it
    would otherwise hide the function, and which of the two a program gets would depend on what is imported."""

    def __call__(
        self,
        store: "Path | str | Store",
        *,
        version: int | None = None,
        as_of: "datetime | None" = None,
        buckets: "Mapping[int, str] | None" = None,
    ) -> "MetadataTables":
        """Returns the tables of a store's metadata, as ``siltstone.metadata_tables.reading.metadata`` does."""
        from siltstone.metadata_tables.reading import metadata as tables_of_store  # noqa: PLC0415

        return tables_of_store(store, version=version, as_of=as_of, buckets=buckets)


metadata.__class__ = _MetadataFunction


def _broker() -> "type[Broker]":
    """Python's cyclic garbage collector is off while the 600 modules are loaded: nothing loaded becomes garbage, and
    collections would take a sixth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        from siltstone.server.embedded import Broker  # noqa: PLC0415
    finally:
        if was_on:
            gc.enable()
    return Broker


def __dir__() -> list[str]:
    """Lists all public names, used or not: notebooks complete them."""
    return sorted([*__all__, "__doc__", "__file__", "__name__", "__path__"])


def __getattr__(name: str) -> object:
    if name == "Broker":
        return _broker()
    if name == "BucketFaults":
        from siltstone.object_store.faults import BucketFaults  # noqa: PLC0415

        return BucketFaults
    if name == "KeyedView":
        from siltstone.kafka_client.keyed_view import KeyedView  # noqa: PLC0415

        return KeyedView
    if name == "open_store":
        from siltstone.spark.opening import open_store  # noqa: PLC0415

        return open_store
    if name == "scan":
        from siltstone.scanning.from_python import scan  # noqa: PLC0415

        return scan
    if name in ("maintenance", "spark"):
        return import_module(f"siltstone.{name}")
    raise AttributeError(f"module 'siltstone' has no attribute {name!r}")
