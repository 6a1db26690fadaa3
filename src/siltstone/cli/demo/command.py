"""``siltstone demo``: the steps in order.

Each step prints what it does when it begins, and the result when it is done. If a record is wrong, the demo shows the
record and ends with exit status 1.
"""

import shlex
import shutil
import sys
import threading
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import click

from siltstone.carrying.pipeline.kind import Outcome, Scope
from siltstone.cli.demo import table
from siltstone.cli.demo.cluster.playing import play_cluster
from siltstone.cli.demo.figures import Figures, HeldBytes, held, measure
from siltstone.cli.demo.flights import (
    FLIGHTS_TOPIC,
    LATE_TOPIC,
    Flight,
    busiest_and_quiet,
    flights_file,
    read_flights,
)
from siltstone.cli.demo.interrupted import noted_interrupts
from siltstone.cli.demo.kafka_client import (
    FlightProducer,
    GroupReading,
    create_topics,
    refuse_without_client,
)
from siltstone.cli.demo.maintaining import collect, drop_old, keep_newest, maintain
from siltstone.cli.demo.place import demo_folder
from siltstone.cli.demo.report import chart, figures_table, steps_chart
from siltstone.cli.demo.stage import Stage
from siltstone.cli.demo.story import COLUMNS_MAX, Story
from siltstone.cli.demo.thresholds import batch_bytes, write_settings
from siltstone.cli.demo.trickle import Trickle
from siltstone.cli.demo.verifying import verify
from siltstone.cli.failures import Failure
from siltstone.cli.output import results
from siltstone.cli.runner_options import (
    IN_PROCESS,
    LOCAL_MASTER,
    RUNNERS,
    SPARK,
    check_runner,
    start_runner,
)
from siltstone.cli.words import counted, seconds_words, size_words
from siltstone.maintenance.checking.check import check
from siltstone.model.objects import ObjectState
from siltstone.offline.opening.store import open_store
from siltstone.offline.tasks.runner import LateRunner
from siltstone.record_columns.kernels.choosing import compiling_ahead
from siltstone.runtime.clock import SystemClock
from siltstone.server.embedded import Broker
from siltstone.server.settings.node import load_node_settings

MISMATCHES_SHOWN_MAX = 5
PARTITIONS = {FLIGHTS_TOPIC: 8, LATE_TOPIC: 1}
CONFIGS = {
    FLIGHTS_TOPIC: {"retention.ms": "-1"},
    LATE_TOPIC: {"retention.ms": "-1", "siltstone.segment.batches.max": "4"},
}
"""The flights are of 2013: the default retention of seven days would delete them before they are consumed."""
GROUP_MEMBERS = 2


@click.command("demo")
@click.option(
    "--store",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Create the store in this folder, and keep it.",
)
@click.option("--keep", is_flag=True, help="Keep the temporary folder that the demo uses without --store.")
@click.option(
    "--flights",
    "count",
    type=click.IntRange(min=100),
    metavar="N",
    help="Use only about N flights of the year.",
)
@click.option(
    "--runner",
    type=click.Choice(RUNNERS),
    default=SPARK,
    show_default=True,
    help="Run maintenance on Spark or in this process.",
)
@click.option(
    "--master", metavar="URL", default=LOCAL_MASTER, show_default=True, help="Address of the Spark master."
)
@click.option(
    "--cluster",
    "is_cluster",
    is_flag=True,
    help="Show three brokers on one store instead; one is killed.",
)
@click.option(
    "--installing-tables",
    type=click.Path(path_type=Path),
    hidden=True,
    help="The file that appears when make has installed what the table needs; the demo waits for it.",
)
@click.pass_context
def demo(
    context: click.Context,
    *,
    installing_tables: Path | None,
    store: Path | None,
    keep: bool,
    count: int | None,
    runner: str,
    master: str,
    is_cluster: bool,
) -> None:
    """Take a tour: a broker, a year of flights, and their maintenance.

    confluent-kafka, an ordinary Kafka client, produces all flights that left New York City in 2013 (336,776 records),
    keyed by the tail number of the plane. Spark compacts the uploaded objects while December is still being produced. A
    consumer group reads all records, and each is compared with its source. Meanwhile the flights are appended to an
    Iceberg table.

    Then key compaction keeps the newest flight of each plane, retention deletes old delayed flights, garbage collection
    frees the space, and a chart shows the effect of each step. At the end Spark SQL and DuckDB are asked about the year
    in the table, and the answers are compared with the source. Exit status 1 if any result is wrong.

    With --cluster three brokers share a store. While flights are being produced, a bucket is taken away, a partition
    moves, one broker is killed with SIGKILL and comes back; then every record is counted, and a chart shows what
    clients felt.
    """
    file = flights_file()
    refuse_without_client()
    has_table = installing_tables is not None or table.has_what_it_needs()
    if is_cluster:
        _refuse_runner(context)
    else:
        check_runner(runner)  # refuses before the store is made, not after a minute of work
    with noted_interrupts() as check_interrupted:
        console = results(columns=None if results().is_terminal else COLUMNS_MAX)
        story = Story(console, check_interrupted)
        with demo_folder(store, keep=keep) as folder:
            if is_cluster:
                is_right = play_cluster(folder, story, read_flights(file, count), SystemClock())
            else:
                with compiling_ahead():
                    is_right = _play(
                        folder, story, file, count, runner, master, installing_tables, has_table=has_table
                    )
            if not is_right:
                raise Failure
            if is_cluster:
                _what_next_of_cluster(story)
            else:
                _what_next(story, folder, is_kept=keep or store is not None, has_table=has_table)


def _refuse_runner(context: click.Context) -> None:
    for name in ("runner", "master"):
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} is for maintenance, and --cluster shows none.", context)


def _what_next_of_cluster(story: Story) -> None:
    _try_next(story)
    story.note("three brokers of your own, in one command, and in another terminal:")
    for command in ("serve --nodes 3 --store ./siltstone-data", "nodes --store ./siltstone-data"):
        story.command(f"siltstone {command}")


def _play(
    folder: Path,
    story: Story,
    file: Path,
    count: int | None,
    runner: str,
    master: str,
    installing_tables: Path | None,
    *,
    has_table: bool,
) -> bool:
    story.title(
        "Siltstone demo", "All flights that left New York City in 2013: a Kafka broker and its maintenance."
    )
    flights = _read(story, file, count)
    settings = write_settings(folder, flights)
    clock = SystemClock()
    with closing(LateRunner(lambda: start_runner(runner, master))) as late_runner:
        began_ms = clock.monotonic_ms()
        story.step("Start a broker")
        with Broker(folder) as broker:
            started_ms = clock.monotonic_ms() - began_ms
            story.done(
                f"a Kafka broker listens on {broker.bootstrap_servers}, after {seconds_words(started_ms / 1000)}"
            )
            story.note(f"store: {folder}")
            create_topics(broker.bootstrap_servers, PARTITIONS, _configs(has_table=has_table))
            producer = FlightProducer(broker.bootstrap_servers, batch_bytes(settings))
            stage = Stage(settings, story, clock, broker, producer, flights, late_runner.start, has_table,
                          installing_tables)  # fmt: skip
            steps: list[HeldBytes] = []
            spark_sql = table.SparkQuery() if has_table and runner == SPARK else None
            is_right = _with_broker(stage, steps, runner, master, spark_sql)
        is_right &= collect(stage)
        steps.append(held(settings, "garbage collection"))
        is_right &= _check(stage)
        story.step("What each step changed")
        story.show(steps_chart(steps))
        if has_table:
            is_right &= table.query(stage, spark_sql)
    return is_right


def _configs(*, has_table: bool) -> dict[str, dict[str, str]]:
    return {**CONFIGS, FLIGHTS_TOPIC: {**CONFIGS[FLIGHTS_TOPIC], **table.CONFIGS}} if has_table else CONFIGS


def _read(story: Story, file: Path, count: int | None) -> list[Flight]:
    story.step("Read the data")
    flights = read_flights(file, count)
    planes = len({flight.tail_number for flight in flights})
    late = sum(flight.is_late for flight in flights)
    story.done(f"{counted(len(flights), 'flight')} of {counted(planes, 'plane')}, "
               f"{late:,} of them three hours late or more")  # fmt: skip
    return flights


def _with_broker(
    stage: Stage, steps: list[HeldBytes], runner: str, master: str, spark_sql: table.SparkQuery | None
) -> bool:
    before, after, is_right = _produce_and_compact(stage, steps, runner, master)
    if spark_sql is not None and is_right:
        spark_sql.warm_up(stage)
    is_right &= _consume(stage)
    stage.story.show(figures_table(before, after))
    stage.story.show(chart(before, after))
    is_right &= keep_newest(stage)
    steps.append(held(stage.settings, "key compaction"))
    is_right &= drop_old(stage)
    steps.append(held(stage.settings, "retention"))
    return is_right


def _produce_and_compact(
    stage: Stage, steps: list[HeldBytes], runner: str, master: str
) -> tuple[Figures, Figures, bool]:
    december = [flight for flight in stage.flights if flight.is_of_december]
    _produce(stage, [flight for flight in stage.flights if not flight.is_of_december])
    stage.broker.flush()
    with open_store(stage.settings) as store:
        watched = busiest_and_quiet(store.metadata.image)
    before = _count(stage, watched, "Before compaction: count objects, and the requests that reading takes")
    stage.story.note("a stream set object holds data of many partitions, a stream object of one")
    steps.append(held(stage.settings, "upload"))
    trickle = Trickle(stage.producer, december, stage.clock)
    producing = threading.Thread(target=trickle.run)
    producing.start()
    try:
        is_right = _compact(stage, runner, master)
        is_right &= _append_first(stage, trickle)
    finally:
        trickle.hurry()
        producing.join()
    trickle.raise_failure()
    stage.story.done(f"meanwhile December was produced: {counted(len(december), 'flight')}, one day at a "
                     f"time, each acknowledged within {seconds_words(trickle.slowest_seconds)}")  # fmt: skip
    stage.broker.flush()
    if stage.has_table:
        is_right &= table.append(stage)
    after = _count(stage, watched, "After compaction: count again, December included, with empty caches")
    steps.append(held(stage.settings, "compaction"))
    return before, after, is_right


def _produce(stage: Stage, flights: list[Flight]) -> None:
    story = stage.story
    story.step("Produce January to November with confluent-kafka, keyed by plane")
    began_ms = stage.clock.monotonic_ms()
    with story.progress("producing") as on_progress:
        stage.producer.produce(flights, on_progress)
    seconds = (stage.clock.monotonic_ms() - began_ms) / 1000
    story.done(f"{counted(stage.producer.acknowledged, 'record')} acknowledged in {seconds_words(seconds)}, each after "
               "it was synced to disk")  # fmt: skip


def _count(stage: Stage, watched: Mapping[str, int], text: str) -> Figures:
    story = stage.story
    story.step(text)
    figures = measure(stage.settings, watched)
    kinds = (
        (figures.stream_set_objects, "stream set object"),
        (figures.stream_objects, "stream object"),
        (figures.index_entries, "index entry"),
    )
    plurals = {"index entry": "index entries"}
    story.done(", ".join(counted(count, noun, plurals.get(noun)) for count, noun in kinds if count)
               + f", {size_words(figures.size_bytes)}")  # fmt: skip
    for name, requests in figures.requests.items():
        story.done(f"{counted(requests, 'GET')} to read all of partition {name}")
    return figures


def _compact(stage: Stage, runner_name: str, master: str) -> bool:
    story = stage.story
    where = "on Spark" if runner_name == SPARK else "in threads of this process"
    story.step(f"Compact {where}, while December is produced")
    began_ms = stage.clock.monotonic_ms()
    if runner_name != IN_PROCESS:
        story.note(f"starting Spark ({master}); the JVM takes some seconds")
    stage.start_runner()
    if runner_name != IN_PROCESS:
        story.done(f"Spark is up after {seconds_words((stage.clock.monotonic_ms() - began_ms) / 1000)}")
    began_ms = stage.clock.monotonic_ms()
    reports, is_well = maintain(stage, ["sso-compaction"], Scope(), "compacting")
    seconds = (stage.clock.monotonic_ms() - began_ms) / 1000
    if not reports and is_well:
        story.done("nothing to compact: so few flights make too few objects")
    for report in reports:
        if report.outcome is not Outcome.DONE:
            continue
        detail = report.detail
        story.done(f"{counted(report.objects_before, 'object')} became {report.objects_after:,} in "
                   f"{counted(int(detail['tasks']), 'task')}, {seconds_words(seconds)}")  # fmt: skip
        story.done(f"{size_words(report.bytes_read)} read in {counted(int(detail['read requests']), 'request')}, "
                   f"{size_words(report.bytes_written)} written in {int(detail['write requests']):,}")  # fmt: skip
        story.done(f"peak memory of a process that ran a task: {size_words(report.peak_memory_bytes)}")
    return is_well


def _append_first(stage: Stage, trickle: Trickle) -> bool:
    story = stage.story
    if not stage.has_table:
        story.note("no Iceberg table: pip install 'siltstone\\[demo]' brings pyiceberg and DuckDB")
        return True
    story.step("Append the flights to an Iceberg table, while December is produced")
    if stage.installing_tables is not None:
        table.await_packages(stage.installing_tables, stage.clock)
    is_right = table.append(stage)
    story.note(
        f"by now {counted(trickle.days_done, 'day')} of December were acknowledged; the next export appends the "
        "flights that are in no object yet"
    )
    return is_right


def _consume(stage: Stage) -> bool:
    story = stage.story
    story.step(f"Consume all records with a group of {GROUP_MEMBERS} consumers, and compare")
    reading = GroupReading(stage.broker.bootstrap_servers, PARTITIONS, stage.clock)
    began_ms = stage.clock.monotonic_ms()
    with story.progress("consuming") as on_progress:
        consumed = reading.read(GROUP_MEMBERS, on_progress)
    seconds = (stage.clock.monotonic_ms() - began_ms) / 1000
    story.done(f"{counted(len(consumed), 'record')} consumed in {seconds_words(seconds)}")
    found = verify(stage.flights, consumed)
    tell = story.wrong if found.mismatches else story.done
    tell(
        f"{found.records_equal:,} of {found.records_expected:,} records equal their source, in order for every plane"
    )
    for mismatch in found.mismatches[:MISMATCHES_SHOWN_MAX]:
        story.wrong(str(mismatch))
    return not found.mismatches


def _check(stage: Stage) -> bool:
    story = stage.story
    with open_store(stage.settings) as store:
        report = check(store.context)
        waiting = len(store.metadata.image.destroyed)
    tell = story.done if report.is_clean else story.wrong
    tell(f"siltstone check: {'clean' if report.is_clean else 'something is wrong'}, "
         f"{counted(report.blocks_checked, 'checksum')} verified")  # fmt: skip
    if waiting:
        story.note(f"{counted(waiting, 'replaced object')} will be deleted by siltstone maintain sweep, "
                   "after a grace period of 10 min for reads that still use them")  # fmt: skip
    return report.is_clean


def _try_next(story: Story) -> None:
    """Proposes commands to try next. After ``make demo`` the shell does not find the command ``siltstone`` yet, which
    is in ``.venv/bin``."""
    story.step("Try next")
    activate = Path(sys.executable).parent / "activate"
    if shutil.which("siltstone") is None and activate.exists():
        shown = activate.relative_to(Path.cwd()) if activate.is_relative_to(Path.cwd()) else activate
        story.note("once in each terminal, so that it finds siltstone:")
        story.command(f". {shlex.quote(str(shown))}")


def _what_next(story: Story, folder: Path, *, is_kept: bool, has_table: bool) -> None:
    _try_next(story)
    place = folder if is_kept else Path("./siltstone-data")
    if not is_kept:
        story.note("the temporary store is deleted now; to keep one:")
        story.command(f"siltstone demo --store {shown_path(place)}")
    story.note("look into the store:")
    looking = ["streams", "check", "maintain sweep"]
    if has_table:
        looking.append("tables")
    if is_kept:  # the object id exists in this store only
        looking.insert(1, f"inspect {_newest_object(folder)} --blocks")
    for command in looking:
        story.command(f"siltstone {command} --store {shown_path(place)}")
    story.note("or look at it as pages:")
    story.command(f"siltstone console --store {shown_path(place)}")
    story.note("or run a broker on it, and in another terminal:")
    story.command(f"siltstone serve --store {shown_path(place)}")
    for command in ("topics", f"tail {LATE_TOPIC} --last 3 --until-end", "groups"):
        story.command(f"siltstone {command}")


def shown_path(path: Path) -> str:
    """Returns the path, quoted for a shell."""
    return shlex.quote(f"./{path}" if not path.is_absolute() else str(path))


def _newest_object(folder: Path) -> int:
    with open_store(load_node_settings(folder, environment={})) as store:
        objects = store.metadata.image.objects.values()
        return max(held.object_id for held in objects if held.state is ObjectState.COMMITTED)
