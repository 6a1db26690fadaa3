"""``Scan``: a planned scan as a Python program gets it, without Spark.

Nothing is read before the program asks for rows. A program that asks twice makes the scan read twice, and gets the same
rows, because the plan does not change.
"""

from collections.abc import Iterator
from html import escape
from types import TracebackType
from typing import Any, Self

from siltstone.foundation.quantity_words import counted, size_words
from siltstone.record_columns.arrow import pandas_frame, polars_frame, table_of
from siltstone.runtime.clock import Clock, SystemClock
from siltstone.runtime.randomness import Random, system_randomness
from siltstone.scanning.renewal import PinRenewal
from siltstone.scanning.rows import unit_rows
from siltstone.scanning.scan import ScanPlan
from siltstone.scanning.values import BadValueCount, rows_schema

PARTITIONS_SHOWN_MAX = 20
HEADER = ("partition", "start", "end", "in no object yet")


class Scan:
    """The records of topics between settled offsets. ``plan`` says what will be read. Its units are read one after
    another, and the rows of a partition come in offset order."""

    def __init__(self, plan: ScanPlan, clock: Clock | None = None, rng: Random | None = None) -> None:
        self.plan = plan
        self._clock = clock or SystemClock()
        self._rng = rng or system_randomness()
        self._renewal: PinRenewal | None = None
        self.bad_values = BadValueCount()
        """How many values were read as null because they cannot be decoded, and why the first could not be."""

    def keep(self, renewal: PinRenewal) -> None:
        """Renews the pin of the plan until the scan is closed or collected as garbage."""
        self._renewal = renewal
        renewal.keep_for(self)

    def close(self) -> None:
        """Ends the scan's own pin. A scan without one shares a pin, which a sweep ends after its lease."""
        if self._renewal is not None:
            self._renewal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def columns(self) -> tuple[str, ...]:
        return self.plan.columns

    @property
    def schema(self) -> Any:
        """The pyarrow.Schema of the rows. Raises ArrowMissing."""
        return rows_schema(self.plan.columns, self.plan.value_format)

    def batches(self) -> Iterator[Any]:
        """Yields pyarrow.RecordBatch, some 16,000 rows each; two requests of a bucket are in memory at a time. Raises
        what ``unit_rows`` raises: a record that cannot be read is an error and is never left out."""
        left = self.plan.rows_max
        for unit in self.plan.units:
            for batch in unit_rows(unit, self._clock, self._rng, self.bad_values):
                if not self.plan.rows_max:
                    yield batch
                    continue
                yield batch[:left]
                left -= min(left, batch.num_rows)
                if not left:
                    return

    def to_arrow(self) -> Any:
        """Returns all rows as a pyarrow.Table, in memory. Raises what ``batches`` raises."""
        return table_of(self.batches(), self.schema)

    def to_pandas(self) -> Any:
        """Returns all rows as a pandas.DataFrame. Raises what ``batches`` raises, and ArrowMissing without pandas."""
        return pandas_frame(self.to_arrow())

    def to_polars(self) -> Any:
        """Returns all rows as a polars.DataFrame. Raises what ``batches`` raises, and ArrowMissing without Polars."""
        return polars_frame(self.to_arrow())

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                each.of.name,
                f"{each.start_offset:,}",
                f"{each.end_offset:,}",
                f"{each.end_offset - each.committed_end:,}",
            )
            for each in self.plan.cuts[:PARTITIONS_SHOWN_MAX]
        ]

    def _summary(self) -> str:
        plan = self.plan
        return (
            f"scan of {counted(len(plan.cuts), 'partition')}: {counted(plan.offset_count, 'offset')} in"
            f" {counted(plan.object_count, 'object')}, {size_words(plan.size_bytes)}; columns"
            f" {', '.join(plan.columns)}"
        )

    def __repr__(self) -> str:
        rows = [HEADER, *self._rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEADER))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([self._summary(), *lines, *self._notes()])

    def _repr_html_(self) -> str:
        """Shows the result in notebooks."""
        head = "".join(f"<th>{escape(cell)}</th>" for cell in HEADER)
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in self._rows()
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in self._notes())
        return f"<p>{escape(self._summary())}</p><table><tr>{head}</tr>{body}</table>{notes}"

    def _notes(self) -> list[str]:
        more = len(self.plan.cuts) - PARTITIONS_SHOWN_MAX
        return [
            *([f"and {counted(more, 'partition')} more"] if more > 0 else []),
            *self.plan.news,
            *self.plan.warnings,
        ]
