"""``siltstone demo``: the steps in order."""

import asyncio
from contextlib import closing
from pathlib import Path

import click
import msgspec

from siltstone.cli.compacting.runners import (
    IN_PROCESS,
    LOCAL_MASTER,
    RUNNERS,
    SPARK,
    check_runner,
    start_runner,
)
from siltstone.cli.demo.choosing import busiest_and_quiet
from siltstone.cli.demo.figures import Figures, measure
from siltstone.cli.demo.flights import Flight, StreamName, batches_of, flights_file, read_flights
from siltstone.cli.demo.loading import LoadReport, load
from siltstone.cli.demo.place import demo_folder
from siltstone.cli.demo.report import chart, figures_table
from siltstone.cli.demo.story import COLUMNS_MAX, Story
from siltstone.cli.demo.thresholds import write_settings
from siltstone.cli.demo.verifying import verify
from siltstone.cli.failures import Failure
from siltstone.cli.output import results
from siltstone.cli.words import counted, seconds_words, size_words
from siltstone.maintenance.checking.check import check
from siltstone.maintenance.compaction import compact
from siltstone.model.objects import ObjectState
from siltstone.runtime.clock import Clock, SystemClock
from siltstone.server.components import open_store
from siltstone.server.settings import StoreSettings

MISMATCHES_SHOWN_MAX = 5


class Stage(msgspec.Struct, frozen=True):
    """What all steps after the first need."""

    settings: StoreSettings
    story: Story
    clock: Clock
    flights: list[Flight]
    loaded: LoadReport
    watched: dict[StreamName, int]
    """The streams whose reading is counted."""


@click.command("demo")
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Where to make the store; it stays there.",
)
@click.option("--keep", is_flag=True, help="Keep the temporary folder that is used without --store.")
@click.option("--flights", "count", type=click.IntRange(min=1), metavar="N", help="Only the first N flights.")
@click.option(
    "--runner",
    type=click.Choice(RUNNERS),
    default=SPARK,
    show_default=True,
    help="Who compacts: Spark, or threads.",
)
@click.option("--master", metavar="URL", default=LOCAL_MASTER, show_default=True, help="The Spark master.")
def demo(store: Path | None, keep: bool, count: int | None, runner: str, master: str) -> None:
    """Fill a store with the flights of 2013, compact it on Spark, read everything back.

    Every flight that left New York City in 2013 is appended to the stream of its carrier and airport, durable in a
    write-ahead log before the answer, and uploaded in stream set objects. Then compaction makes few objects of many,
    every record is compared with its source, and a chart shows what that bought. Exit status 1 if any record differs.
    """
    story = Story(results(columns=None if results().is_terminal else COLUMNS_MAX))
    file = flights_file()
    check_runner(runner)  # before the store is there, not after a minute's work
    with demo_folder(store, keep=keep) as folder:
        stage = _fill(folder, story, file, count)
        before = _count(stage, "Before compaction: what reading costs")
        _compact(stage, runner, master)
        after = _count(stage, "After compaction: the same reads, cold again")
        is_right = _verify(stage)
        story.step("What compaction bought")
        story.show(figures_table(before, after))
        story.show(chart(before, after))
        if not is_right:
            raise Failure
        _what_next(stage, folder, is_kept=keep or store is not None)


def _fill(folder: Path, story: Story, file: Path, count: int | None) -> Stage:
    clock = SystemClock()
    story.title(
        "Siltstone demo", "The flights that left New York City in 2013, from append to compacted objects."
    )
    story.step("Read the data")
    flights = read_flights(file, count)
    batches = list(batches_of(flights))
    streams = len({batch.stream for batch in batches})
    story.done(f"{counted(len(flights), 'flight')}, {counted(streams, 'stream')} (carrier and airport), "
               f"{counted(len(batches), 'batch', 'batches')}")  # fmt: skip
    story.step("Append it in time order")
    story.note(f"store: {folder}")
    settings = write_settings(folder, batches)
    with story.progress("appending") as on_progress:
        loaded = asyncio.run(load(settings, batches, clock, on_progress))
    story.done(f"{counted(loaded.appends, 'append')} acknowledged in {seconds_words(loaded.seconds)}, each durable "
               f"in the write-ahead log first: {counted(loaded.syncs, 'fdatasync')}")  # fmt: skip
    watched = {name: loaded.streams[name] for name in busiest_and_quiet(flights)}
    return Stage(settings, story, clock, flights, loaded, watched)


def _count(stage: Stage, text: str) -> Figures:
    story = stage.story
    story.step(text)
    figures = asyncio.run(measure(stage.settings, stage.watched))
    kinds = (
        (figures.stream_set_objects, "stream set object"),
        (figures.stream_objects, "stream object"),
        (figures.index_entries, "index entry"),
    )
    plurals = {"index entry": "index entries"}
    story.done(", ".join(counted(count, noun, plurals.get(noun)) for count, noun in kinds if count)
               + f", {size_words(figures.size_bytes)}")  # fmt: skip
    for name, requests in figures.requests.items():
        story.done(f"{counted(requests, 'GET')} to read {name} from its beginning")
    return figures


def _compact(stage: Stage, runner_name: str, master: str) -> None:
    story = stage.story
    story.step(f"Compact on {'Spark' if runner_name == SPARK else 'threads of this process'}")
    began_ms = stage.clock.monotonic_ms()
    if runner_name != IN_PROCESS:
        story.note(f"starting Spark, {master}: the JVM takes some seconds")
    with closing(start_runner(runner_name, master)) as runner:
        if runner_name != IN_PROCESS:
            story.done(f"Spark is up after {seconds_words((stage.clock.monotonic_ms() - began_ms) / 1000)}")
        with open_store(stage.settings) as store, story.progress("compacting") as on_progress:
            report = compact(
                store.context,
                runner,
                stage.settings.compaction,
                on_progress=lambda told: on_progress(told.done, told.total),
            )
    story.done(f"{counted(report.objects_before, 'object')} became {report.objects_after:,} in "
               f"{counted(report.iterations, 'task')}, {seconds_words(report.seconds)}")  # fmt: skip
    story.done(f"{size_words(report.bytes_read)} read in {counted(report.read_requests, 'request')}")
    story.done(f"{size_words(report.bytes_written)} written in {counted(report.write_requests, 'request')}")
    story.done(f"peak memory of a process that ran a task: {size_words(report.peak_memory_bytes)}")


def _verify(stage: Stage) -> bool:
    story = stage.story
    story.step("Read every record back and compare it with the source")
    with story.progress("reading") as on_progress:
        found = asyncio.run(verify(stage.settings, stage.loaded.streams, stage.flights, on_progress))
    tell = story.wrong if found.mismatches else story.done
    tell(f"{found.records_equal:,} of {len(stage.flights):,} records are as in the source")
    for mismatch in found.mismatches[:MISMATCHES_SHOWN_MAX]:
        story.wrong(str(mismatch))
    with open_store(stage.settings) as store:
        report = check(store.context)
        waiting = len(store.metadata.image.destroyed)
    tell = story.done if report.is_clean else story.wrong
    tell(f"siltstone check: {'clean' if report.is_clean else 'something is wrong'}, "
         f"{counted(report.blocks_checked, 'checksum')} verified")  # fmt: skip
    if waiting:
        story.note(f"{counted(waiting, 'replaced object')} left to siltstone maintain sweep, which deletes "
                   "when no reader can need them (after 10 min)")  # fmt: skip
    return not found.mismatches and report.is_clean


def _what_next(stage: Stage, folder: Path, *, is_kept: bool) -> None:
    story = stage.story
    with open_store(stage.settings) as store:
        objects = store.metadata.image.objects.values()
        newest = max(held.object_id for held in objects if held.state is ObjectState.COMMITTED)
    story.step("Try next")
    place = str(folder) if is_kept else "./siltstone-data"
    if not is_kept:
        story.note("the temporary store is removed now; make one that stays:")
        story.command(f"siltstone demo --store {place}")
    for command in ("streams", f"inspect {newest} --blocks", "check", "maintain sweep"):
        story.command(f"siltstone {command} --store {place}")
