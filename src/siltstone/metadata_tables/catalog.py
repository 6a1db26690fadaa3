"""``TABLES``: all tables of metadata by name, and ``tables_of``, which makes them from an image without any I/O.

A broker that shows pages asks ``tables_of(image, …)`` for a page of rows; a program without a broker gets the same
tables from ``from_python``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from siltstone.metadata_tables.cluster import JOBS, NODES
from siltstone.metadata_tables.columns import MetadataTable, batches_of, schema_of
from siltstone.metadata_tables.groups import GROUP_LAGS, GROUPS
from siltstone.metadata_tables.log_rows import LOG
from siltstone.metadata_tables.moment import Moment
from siltstone.metadata_tables.objects import BUCKETS, OBJECT_RANGES, OBJECTS
from siltstone.metadata_tables.pipelines import SINKS, TABLES
from siltstone.metadata_tables.streams import PARTITIONS, STREAMS, TOPICS
from siltstone.model.errors import InvalidRequest, did_you_mean
from siltstone.record_columns.arrow import pandas_frame, polars_frame, table_of

METADATA_TABLES: Mapping[str, MetadataTable] = {
    each.name: each
    for each in (
        TOPICS, PARTITIONS, STREAMS, OBJECTS, OBJECT_RANGES, BUCKETS, NODES, GROUPS, GROUP_LAGS, JOBS, TABLES, SINKS,
        LOG,
    )
}  # fmt: skip


class MetadataTableUnknown(InvalidRequest):
    """There is no table of metadata of that name."""


def metadata_table(name: str) -> MetadataTable:
    """Returns the table of that name. Raises MetadataTableUnknown."""
    if name not in METADATA_TABLES:
        hint = did_you_mean(name, METADATA_TABLES, f"the tables are {', '.join(METADATA_TABLES)}")
        raise MetadataTableUnknown(f"there is no table {name} of metadata: {hint}")
    return METADATA_TABLES[name]


class TableOfMoment:
    """One table at one moment. Rows are made when they are asked for, a batch at a time."""

    def __init__(self, table: MetadataTable, moment: Moment) -> None:
        self._table = table
        self._moment = moment

    @property
    def name(self) -> str:
        return self._table.name

    def schema(self, columns: Sequence[str] | None = None) -> Any:
        """Returns the pyarrow.Schema. Raises MetadataColumnUnknown, ArrowMissing."""
        return schema_of(self._table, columns)

    def batches(
        self,
        columns: Sequence[str] | None = None,
        *,
        topic: str | None = None,
        limit: int | None = None,
        offset: int = 0,
    ) -> Iterator[Any]:
        """Yields pyarrow.RecordBatch: the rows of one topic or all, at most ``limit`` after the first ``offset``.
        Tables that are not about topics have the same rows for any topic. Raises MetadataColumnUnknown,
        ArrowMissing."""
        return batches_of(self._table, self._moment, columns=columns, topic=topic, limit=limit, offset=offset)

    def rows(self, columns: Sequence[str] | None = None, **choice: Any) -> list[dict[str, Any]]:
        """Returns the rows as dictionaries; ``choice`` as for ``batches``."""
        return [row for batch in self.batches(columns, **choice) for row in batch.to_pylist()]

    def to_arrow(self, columns: Sequence[str] | None = None, **choice: Any) -> Any:
        """Returns a pyarrow.Table; ``choice`` as for ``batches``."""
        return table_of(self.batches(columns, **choice), self.schema(columns))

    def to_pandas(self, columns: Sequence[str] | None = None, **choice: Any) -> Any:
        """Returns a pandas.DataFrame; ``choice`` as for ``batches``."""
        return pandas_frame(self.to_arrow(columns, **choice))

    def to_polars(self, columns: Sequence[str] | None = None, **choice: Any) -> Any:
        """Returns a polars.DataFrame; ``choice`` as for ``batches``."""
        return polars_frame(self.to_arrow(columns, **choice))

    def __repr__(self) -> str:
        return f"<table {self.name} of the metadata at version {self._moment.image.version}>"


class MetadataTables:
    """All tables at one moment, as attributes: ``tables.objects``, ``tables.groups``. ``version`` is that of the
    metadata."""

    def __init__(self, moment: Moment) -> None:
        self.moment = moment

    @property
    def version(self) -> int:
        return self.moment.image.version

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(METADATA_TABLES)

    def table(self, name: str) -> TableOfMoment:
        """Raises MetadataTableUnknown."""
        return TableOfMoment(metadata_table(name), self.moment)

    def __getattr__(self, name: str) -> TableOfMoment:
        if name not in METADATA_TABLES:
            raise AttributeError(str(MetadataTableUnknown(f"there is no table {name} of metadata")))
        return self.table(name)

    def __dir__(self) -> list[str]:
        """Lists the tables, too: notebooks complete them."""
        return [*super().__dir__(), *METADATA_TABLES]

    def __repr__(self) -> str:
        return f"<metadata at version {self.version}: {', '.join(METADATA_TABLES)}>"


def tables_of(moment: Moment) -> MetadataTables:
    """Returns the tables of a moment. Pure: a broker makes them of its own image."""
    return MetadataTables(moment)
