"""Runs the tasks of a round: makes their inputs, and gathers their results."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from hashlib import blake2b

from siltstone.carrying.pipeline.kind import Attempt
from siltstone.model.errors import Unavailable
from siltstone.offline.erasures import StreamErasure
from siltstone.offline.settings import TableSettings
from siltstone.offline.tasks.runner import RunFailed, Task
from siltstone.record_columns.row_columns import ALL_COLUMNS, KEY
from siltstone.scanning.request import Bound, BoundKind, Bounds, ScanRequest, Tail
from siltstone.tables import erasing_rows, rewrite_input
from siltstone.tables.erasing_rows import RowErasureInput, RowErasureResult, run_row_erasure
from siltstone.tables.formats.port import DataFile, LoadedTable, Replacement, TableFile, folder_of
from siltstone.tables.joining import Rewrite, tasks_of
from siltstone.tables.layout import dead_letter_schema
from siltstone.tables.planning import RoundRanges, TopicExport
from siltstone.tables.rewrite_input import RewriteInput, RewriteInputs
from siltstone.tables.rewriting import run_rewrite
from siltstone.tables.task_input import (
    CODEC,
    FILE_BYTES,
    ExportInput,
    ExportResult,
    FoundColumns,
    Truncate,
    ValueSchemas,
)


class RoundTasks:
    """Runs the tasks of one round of one topic."""

    def __init__(self, attempt: Attempt, settings: TableSettings, task: Task, export: TopicExport) -> None:
        self._attempt = attempt
        self._settings = settings
        self._task = task
        self._export = export
        self.peak_memory_bytes = 0

    def request(self, ranges: RoundRanges, wanted: dict[int, int]) -> ScanRequest:
        topic = self._export.topic.name

        def bounds(offsets: dict[int, int]) -> Bounds:
            return Bounds(
                None, {(topic, number): Bound(BoundKind.OFFSET, offsets[number]) for number in wanted}
            )

        return ScanRequest(
            assigned={topic: tuple(wanted)},
            start=bounds(ranges.starts),
            end=bounds(ranges.ends),
            columns=ALL_COLUMNS,
            tail=Tail.COMMITTED,
            fail_on_data_loss=False,  # records that were removed meanwhile become a gap
            unit_bytes_max=FILE_BYTES,
        )

    def token(self, parts: Iterable[bytes]) -> str:
        """A name that only this round has. A round with another plan would write other bytes, so it must not use the
        same file names."""
        digest = blake2b(digest_size=8)
        for part in parts:
            digest.update(part)
        digest.update(self._attempt.context.rng.getrandbits(64).to_bytes(8, "big"))
        return f"{self._attempt.job_id}-{digest.hexdigest()}"

    def inputs(
        self,
        table: LoadedTable,
        dead_letters: LoadedTable | None,
        units: Mapping[int, bytes],
        token: str,
        verdict: dict[int, list[int]] | None,
        schemas: ValueSchemas,
        key_schemas: ValueSchemas,
        found: FoundColumns,
        *,
        replays: bool = False,
    ) -> Iterable[tuple[int, ExportInput]]:
        config, partitions = self._export.config, len(self._export.topic.partitions)
        if verdict is not None and dead_letters is not None:
            # Why: the topic may have got more partitions since, and what the round could decode must not become bad.
            partitions = len(dead_letters.ledger.offsets)
        may_truncate = self._export.has_truncates and partitions == 1
        schema, dead_schema = (
            each.serialize().to_pybytes()
            for each in (table.file_schema, dead_letters.schema if dead_letters else dead_letter_schema())
        )
        for number, unit in units.items():
            yield (
                number,
                ExportInput(
                    name=f"{self._export.topic.name}, unit {number}",
                    unit=unit,
                    config=config,
                    schema=schema,
                    dead_letter_schema=dead_schema,
                    partition_by=config.partition_by,
                    location=self._settings.location,
                    folder=folder_of(self._export.table),
                    dead_letter_folder=folder_of(self._export.dead_letter_table),
                    token=token,
                    number=number,
                    verdict=verdict,
                    schemas=schemas,
                    key_schemas=key_schemas,
                    found=found,
                    replays=replays,
                    may_truncate=may_truncate and not replays,
                ),
            )

    def run(self, given: Iterable[tuple[int, ExportInput]], size_bytes: int) -> dict[int, ExportResult]:
        """Runs the tasks, and returns their results by the numbers of their units."""
        numbers, inputs = [], []
        for number, each in given:
            numbers.append(number)
            inputs.append(CODEC.encode_input(each))
        results: dict[int, ExportResult] = {}
        for at, result in self._results(self._task, inputs, "export", size_bytes):
            results[numbers[at]] = found = CODEC.decode_result(result)
            self.peak_memory_bytes = max(self.peak_memory_bytes, found.peak_memory_bytes)
            if (failure := found.failure) is not None:
                raise Unavailable(failure.reason)
        return results

    def rewrite(
        self, table: LoadedTable, plans: Sequence[Rewrite], truncates: tuple[Truncate, ...] = ()
    ) -> Replacement:
        """Runs the tasks of the plans. Returns the files that the commit is to replace."""
        config = self._export.config
        token = self.token([repr(plans).encode()])
        numbers = itertools.count()
        schema = table.file_schema.serialize().to_pybytes()

        def given(plan: Rewrite) -> RewriteInput:
            return RewriteInput(
                name=f"{self._export.topic.name}, files of {plan.values}",
                old=plan.old,
                staged=plan.staged,
                schema=schema,
                values=plan.values,
                division=table.columns_of_division,
                key=config.source_of(KEY) if config.is_upsert else "",
                has_history=config.has_history,
                has_sequence=bool(config.sequence),
                truncates=truncates,
                now_ms=self._attempt.context.now_ms(),
                location=self._settings.location,
                folder=folder_of(table.name),
                token=token,
                number=next(numbers),
            )

        tasks = tasks_of(plans, self._attempt.start_runner().slots)
        inputs = [
            rewrite_input.CODEC.encode_input(RewriteInputs(tuple(given(plan) for plan in task)))
            for task in tasks
        ]
        added: dict[int, list[DataFile]] = {}
        size_bytes = sum(plan.size_bytes for plan in plans)
        for at, result in self._results(run_rewrite, inputs, "rewrite files of", size_bytes):
            found = rewrite_input.CODEC.decode_result(result).each
            added[at] = [file for each in found for file in each.files]
            peak_bytes = max(each.peak_memory_bytes for each in found)
            self.peak_memory_bytes = max(self.peak_memory_bytes, peak_bytes)
        return Replacement(
            removed=tuple(each for plan in plans for each in plan.old),
            added=tuple(each for at in range(len(tasks)) for each in added[at]),
            keeps_rows=not config.is_upsert,
        )

    def erase(
        self,
        table: LoadedTable,
        files: Sequence[TableFile],
        erasures: dict[int, tuple[StreamErasure, ...]],
        outer: str,
    ) -> dict[TableFile, RowErasureResult]:
        """Runs a task for each of the files. Returns the results of the files with rows of erased keys."""
        token = self.token([repr(files).encode()])
        given = [
            erasing_rows.CODEC.encode_input(
                RowErasureInput(
                    name=f"{self._export.topic.name}, {file.path}",
                    file=file,
                    erasures=erasures,
                    outer=outer,
                    has_names=table.has_names_of_files,
                    schema=table.file_schema.serialize().to_pybytes(),
                    division=table.columns_of_division,
                    location=self._settings.location,
                    folder=folder_of(table.name),
                    token=token,
                    number=number,
                )
            )
            for number, file in enumerate(files)
        ]
        found: dict[TableFile, RowErasureResult] = {}
        size_bytes = sum(each.size_bytes for each in files)
        for at, result in self._results(
            run_row_erasure, given, "look for erased keys in the table of", size_bytes
        ):
            of_file = erasing_rows.CODEC.decode_result(result)
            self.peak_memory_bytes = max(self.peak_memory_bytes, of_file.peak_memory_bytes)
            if of_file.erased:
                found[files[at]] = of_file
        return found

    def _results(
        self, task: Task, inputs: Sequence[bytes], what: str, size_bytes: int
    ) -> Iterator[tuple[int, bytes]]:
        """Yields the results of the tasks, in the order in which they end. Raises RunFailed."""
        watch = self._attempt.watch
        report_progress = watch.steps(f"{what} {self._export.topic.name}", size_bytes)
        done = 0
        label = self._attempt.label([self._export.topic.name])
        ended = self._attempt.start_runner().run_each(task, inputs, watch.check, lambda _: label)
        with closing(ended):
            for at, result in ended:
                if isinstance(result, RunFailed):
                    raise result
                yield at, result
                done += 1
                report_progress(done, len(inputs))
