"""The demo's steps of maintenance after the first compaction: key compaction, retention, garbage collection.

Each step prints its effect on a topic, compares it with the source data, and returns whether it is right.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

import siltstone
from siltstone.carrying.pipeline.driver import Driver
from siltstone.carrying.pipeline.kind import Budget, Scope, UnitReport
from siltstone.cli.demo.figures import listed
from siltstone.cli.demo.flights import FLIGHTS_TOPIC, LATE_TOPIC
from siltstone.cli.demo.kafka_client import begin_of, configure
from siltstone.cli.demo.stage import Stage
from siltstone.cli.words import counted, seconds_words, size_words
from siltstone.maintenance.kinds import chosen_kinds
from siltstone.maintenance.sweep.sweeping import sweep
from siltstone.offline.opening.store import open_store

EVERYTHING = 2**63 - 1
FOLLOWED_MS_MAX = 10_000
FOLLOWED_POLL_MS = 50
KEPT_SINCE = datetime(2013, 7, 1, tzinfo=UTC)


def keep_newest(stage: Stage) -> bool:
    """Key compaction of the flights by plane. Returns whether exactly the last flight of every plane is left."""
    story = stage.story
    story.step("Key compaction: keep the newest flight of each plane")
    configure(stage.broker.bootstrap_servers, FLIGHTS_TOPIC, {"cleanup.policy": "compact"})
    story.done(f"{FLIGHTS_TOPIC} has cleanup.policy=compact now")
    stage.broker.flush()
    scope = Scope(topics=frozenset([FLIGHTS_TOPIC]), is_forced=True, up_to=EVERYTHING)
    began_ms = stage.clock.monotonic_ms()
    _, is_split = maintain(stage, ["sso-compaction"], Scope())  # makes stream objects of stream set objects
    reports, is_compacted = maintain(stage, ["key-compaction"], scope)
    seconds = (stage.clock.monotonic_ms() - began_ms) / 1000
    removed = sum(report.records_removed for report in reports)
    left = len(stage.flights) - removed
    story.done(f"{counted(len(stage.flights), 'record')} became {left:,} in {seconds_words(seconds)}; they keep "
               "their offsets")  # fmt: skip
    with siltstone.KeyedView(stage.broker.bootstrap_servers, FLIGHTS_TOPIC) as view:
        found = dict(view.items())
    expected = {flight.tail_number: flight.line for flight in stage.flights}
    same = sum(found.get(plane) == line for plane, line in expected.items())
    is_same = found == expected
    tell = story.done if is_same else story.wrong
    tell(f"read as a table, {same:,} of {len(expected):,} planes have their last flight of the year")
    return is_split and is_compacted and is_same


def drop_old(stage: Stage) -> bool:
    """Retention of the late flights. Returns whether no record was deleted that had to stay."""
    story = stage.story
    story.step(f"Retention: delete late flights before {KEPT_SINCE:%B}")
    since_ms = int(KEPT_SINCE.timestamp() * 1000)
    configure(
        stage.broker.bootstrap_servers, LATE_TOPIC, {"retention.ms": str(stage.clock.now_ms() - since_ms)}
    )
    reports, is_right = maintain(stage, ["retention"], Scope(topics=frozenset([LATE_TOPIC])))
    late = [flight for flight in stage.flights if flight.is_late]
    trimmed = sum(report.offsets_trimmed for report in reports)
    begins = _begin_when_followed(stage, trimmed)
    to_keep = sum(flight.departure_ms >= since_ms for flight in late)
    is_kept = len(late) - begins >= to_keep
    tell = story.done if is_kept and trimmed == begins else story.wrong
    if begins:
        tell(f"{LATE_TOPIC} begins at offset {begins:,} now: {len(late) - begins:,} of {len(late):,} records stay, "
             f"among them all {to_keep:,} since {KEPT_SINCE:%B}")  # fmt: skip
        story.note("retention deletes whole segments, so some older records stay")
    else:
        tell(f"all {len(late):,} records of {LATE_TOPIC} stay: retention deletes whole segments, "
             "and none is old enough")  # fmt: skip
    return is_right and is_kept and trimmed == begins


def _begin_when_followed(stage: Stage, expected: int) -> int:
    """Returns the first offset that the broker reports, after it has followed the trim in the metadata or
    FOLLOWED_MS_MAX."""
    until_ms = stage.clock.monotonic_ms() + FOLLOWED_MS_MAX
    begins = begin_of(stage.broker.bootstrap_servers, LATE_TOPIC)
    while begins != expected and stage.clock.monotonic_ms() < until_ms:
        stage.clock.block_ms(FOLLOWED_POLL_MS)
        begins = begin_of(stage.broker.bootstrap_servers, LATE_TOPIC)
    return begins


def collect(stage: Stage) -> bool:
    """Runs the kinds that free space, then a sweep without a grace period: the broker has stopped, so no read can use a
    replaced object. Returns whether all units succeeded."""
    story = stage.story
    story.step("Garbage collection, after the broker has stopped")
    with open_store(stage.settings) as store:
        before = sum(1 for _ in listed(store))
    kinds = ["dead-objects", "sso-compaction", "minor-gc", "major-gc", "so-compaction"]
    _, is_right = maintain(stage, kinds, Scope(is_forced=True))
    with open_store(stage.settings) as store:
        report = sweep(store.context, grace_period_ms=0)
    story.done(f"{report.objects_deleted:,} of {counted(before, 'object')} deleted, {size_words(report.bytes_deleted)} "
               "freed")  # fmt: skip
    return is_right


def maintain(
    stage: Stage, kinds: Iterable[str], scope: Scope, title: str = "at work"
) -> tuple[Sequence[UnitReport], bool]:
    """Runs ``kinds`` and prints what failed. Returns the reports of all units, and whether none failed."""
    done: list[UnitReport] = []
    is_right = True
    with open_store(stage.settings) as store, stage.story.progress(title) as on_progress:
        driver = Driver(
            store.context,
            stage.start_runner,
            scope,
            Budget(),
            on_step_progress=lambda step: on_progress(step.done, step.total),
        )
        for report in driver.run(chosen_kinds(store.kind_settings, kinds)):
            done += report.units
            if report.trouble:
                is_right = False
                stage.story.wrong(f"{report.kind}: {report.trouble}")
            for unit in report.failed:
                is_right = False
                stage.story.wrong(f"{report.kind} of {unit.name}: {unit.text}")
    return done, is_right
