"""Finds the columns of a topic's JSON values for the driver of a round (``siltstone.table.columns=infer``).

Columns are proposed from a bounded sample when the table is made. After that the table has them, and the metadata
records them beside the progress, because a table does not say which of its texts are JSON. A task that meets another
field reports its type; the driver adds the column, and the tasks run again. So every row of a commit has its fields in
columns, whichever machine wrote it, and an export that is repeated finds the same columns.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from siltstone.offline.context import MaintenanceContext
from siltstone.record_columns.row_columns import VALUE
from siltstone.scanning.request import Bound, BoundKind, Bounds, ScanRequest, Tail
from siltstone.scanning.sampling import SampledFields, sampled_fields, sampled_values
from siltstone.scanning.scan import plan_scan
from siltstone.scanning.transactions import CommittedEnds
from siltstone.tables.formats.derived import division_column
from siltstone.tables.layout import own_columns
from siltstone.tables.versions import VERSION_COLUMNS
from siltstone.topic_configs.column_types import ColumnType, canonical
from siltstone.topic_configs.table_export import IDENTITY, KAFKA, RESCUED, TableColumn, TableConfig
from siltstone.value_formats.column_arrays import field_type, plain_type, type_of_field
from siltstone.value_formats.found_columns import Columns, agreed, extended


class RoundColumns:
    """The columns of a topic whose columns are found, as far as a round knows them."""

    def __init__(self, config: TableConfig, kept: Sequence[TableColumn], *, nests: bool) -> None:
        """``kept`` are the columns of earlier rounds. ``nests``: structs of the table can get more fields."""
        self._listed = config.columns
        self._nests = nests
        names = {each.name for each in config.partition_by if each.transform != IDENTITY}
        names |= {division_column(each) for each in config.division}
        names |= {*VERSION_COLUMNS, *own_columns(config)} if config.is_upsert else set()
        self._own = (KAFKA, RESCUED, *VERSION_COLUMNS, *own_columns(config))
        self._reserved = frozenset(name.lower() for name in names)
        listed = {each.name.lower() for each in config.columns}
        self._known: Columns = (
            *config.columns,
            *(each for each in kept if each.name.lower() not in listed),
        )

    @property
    def known(self) -> Columns:
        """All columns, listed ones first."""
        return self._known

    @property
    def found(self) -> Columns:
        """The columns that are not listed."""
        return self._known[len(self._listed) :]

    @property
    def reserved(self) -> frozenset[str]:
        """The names in lower case that no found column may have."""
        return self._reserved

    def add(self, fields: dict[str, ColumnType]) -> None:
        """Adds the columns of fields that records have."""
        self._known = extended(self._known, fields, nests=self._nests, reserved=self._reserved)

    def columns(self, table: Any | None) -> dict[str, Any]:
        """Returns the columns of the table beside the listed ones, by name; ``table`` is its pyarrow.Schema, or None.
        Its columns are known from now on, and its types count if other ones were recorded: another driver may have
        found these at the same time. A column of a type that no JSON has stays as it is, and its name is taken."""
        odd = {}
        for each in table or ():
            if each.name in self._own:
                continue
            kind = type_of_field(each.type)
            if kind is None:
                odd[each.name] = plain_type(each.type)
                self._reserved |= {each.name.lower()}
            else:
                column = TableColumn(each.name, canonical(kind))
                self._known = agreed(self._known, len(self._listed), column, nests=self._nests)
                self._known = extended(self._known, {each.name: kind}, nests=True)
        found = {each.name: field_type(each.type) for each in self.found}
        return {**found, **odd, RESCUED: pa.string()}


def sampled(
    context: MaintenanceContext, topic: str, partitions: int, committed: CommittedEnds
) -> SampledFields:
    """Returns the fields of a sample of a topic's values, and their types. Raises what a scan raises."""

    def everywhere(kind: BoundKind) -> Bounds:
        return Bounds(None, {(topic, number): Bound(kind, 0) for number in range(partitions)})

    request = ScanRequest(
        assigned={topic: tuple(range(partitions))},
        start=everywhere(BoundKind.EARLIEST),
        end=everywhere(BoundKind.LATEST),
        columns=(VALUE,),
        tail=Tail.COMMITTED,
        fail_on_data_loss=False,
        lease_ms=0,
    )
    units = plan_scan(context, request, committed).units
    return sampled_fields(sampled_values(units, context.clock, context.rng, context.security))
