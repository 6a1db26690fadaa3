"""Spark finds the format ``siltstone`` through this package: it looks for ``DefaultSource`` in installed packages named
``pyspark_…``, so ``spark.read.format("siltstone")`` needs no registration.

Spark imports this in many processes, so what only a driver needs is imported when it plans.
"""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from siltstone.spark.source.data_source import TopicDataSource

if TYPE_CHECKING:
    from pathlib import Path

    from siltstone.offline.context import MaintenanceContext
    from siltstone.server.components import Store
    from siltstone.spark.sink.options import SinkPlace
    from siltstone.spark.source.options import SourceRequest


class DefaultSource(TopicDataSource):
    """The format ``siltstone``: topics of a store, read straight from its buckets."""

    def open_source(
        self, options: "SourceRequest | SinkPlace"
    ) -> "AbstractContextManager[MaintenanceContext]":
        from siltstone.server.scanning import open_source  # noqa: PLC0415

        return open_source(options.store, metadata=options.metadata, buckets=options.buckets)


def open_place(place: "Path | str") -> "AbstractContextManager[MaintenanceContext]":
    """Opens a store by its folder, or by the URL of its metadata."""
    from siltstone.server.scanning import open_source  # noqa: PLC0415

    return open_source(place)


def open_store_place(place: "Path | str") -> "AbstractContextManager[Store]":
    """Opens a store by its folder, with its settings."""
    from pathlib import Path  # noqa: PLC0415

    from siltstone.server.opening import open_store  # noqa: PLC0415

    return open_store(Path(place))
