"""``siltstone compact``: one round of stream set object compaction, the plan shown before and the report after."""

from contextlib import closing

import click
import msgspec
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from siltstone.cli.compacting.runners import (
    LOCAL_MASTER,
    RUNNERS,
    SPARK,
    check_runner,
    spark_settings,
    start_runner,
)
from siltstone.cli.compacting.tables import nothing_shown, plan_json, plan_shown, report_shown
from siltstone.cli.output import print_json, remarks, results
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.cli.words import size_words
from siltstone.maintenance.compaction import carry_out, plan_round
from siltstone.maintenance.in_process_runner import InProcessRunner
from siltstone.maintenance.planning.plan import CompactionPlan
from siltstone.maintenance.report import CompactionProgress, CompactionReport
from siltstone.server.components import Store


@click.command()
@click.option("--dry-run", is_flag=True, help="Only show the plan; nothing is written, no Spark is started.")
@click.option(
    "--runner",
    type=click.Choice(RUNNERS),
    default=SPARK,
    help="Who does the work: Spark (the default), or this process.",
)
@click.option("--master", metavar="URL", default=LOCAL_MASTER, help=f"The Spark master [{LOCAL_MASTER}].")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark's own; repeatable.")
@click.option(
    "--split-size", metavar="SIZE", help="A stream with more bytes than that gets objects of its own."
)
@click.option("--memory", metavar="SIZE", help="The most source bytes a task holds, such as 500MiB.")
@json_option
@store_options  # fmt: skip
def compact(
    choice: StoreChoice,
    dry_run: bool,
    runner: str,
    master: str,
    conf: tuple[str, ...],
    split_size: str | None,
    memory: str | None,
    as_json: bool,
) -> None:
    """Make few objects of many: one round of compaction.

    Stream set objects, in which a node uploads what it gathered of all streams, are read together; each stream with
    enough bytes gets objects of its own, the rest goes into one new stream set object. The work is cut into tasks that
    each fit into memory. Old objects stay readable until a sweep deletes them.
    """
    settings = choice.settings(compaction__split_size_bytes=split_size, compaction__memory_bytes=memory)
    spark = SparkChoice(runner, master, spark_settings(conf))
    with choice.open() as store:
        if not dry_run:
            check_runner(runner)
        with _Bar() as bar:
            plan = plan_round(store.context, settings.compaction, bar.progress)
        if not as_json:
            _show_plan(plan, store)
        report = None if dry_run else _carry_out(store, plan, spark)
    if as_json:
        print_json({"plan": plan_json(plan)} | ({"report": report} if report is not None else {}))
    elif report is not None and report.committed:
        results().print(report_shown(report))


class SparkChoice(msgspec.Struct, frozen=True):
    runner: str
    master: str
    settings: dict[str, str]


def _carry_out(store: Store, plan: CompactionPlan, spark: SparkChoice) -> CompactionReport:
    """With nothing to do, no JVM is started."""
    if plan.is_empty:
        return carry_out(store.context, InProcessRunner(), plan)
    if spark.runner == SPARK:
        remarks().print(f"starting Spark, {spark.master} …", style="dim", markup=False)
    with closing(start_runner(spark.runner, spark.master, spark.settings)) as runner, _Bar(plan) as bar:
        return carry_out(store.context, runner, plan, bar.progress)


def _show_plan(plan: CompactionPlan, store: Store) -> None:
    results().print(plan_shown(plan))
    if plan.is_empty:
        results().print(nothing_shown(plan, store.metadata.image))


class _Bar:
    """Tasks done and about how many bytes that is; on stderr, gone afterwards, silent without a terminal."""

    def __init__(self, plan: CompactionPlan | None = None) -> None:
        console = remarks()
        self._bars = Progress(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("{task.fields[moved]}"), TimeElapsedColumn(),
            console=console, transient=True, disable=not console.is_terminal,
        )  # fmt: skip
        self._task: TaskID | None = None
        self._live_bytes = plan.live_bytes if plan is not None else 0

    def __enter__(self) -> "_Bar":
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def progress(self, told: CompactionProgress) -> None:
        if self._task is None:
            self._task = self._bars.add_task(told.step, total=told.total, moved="")
        moved = ""
        if told.step == "rewrite" and told.total:
            moved = (
                f"{size_words(self._live_bytes * told.done // told.total)} of {size_words(self._live_bytes)}"
            )
        self._bars.update(
            self._task, description=told.step, completed=told.done, total=told.total, moved=moved
        )
