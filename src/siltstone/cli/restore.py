"""``siltstone restore FROM``: a new store from a backup."""

from pathlib import Path

import click

from siltstone.backups.manifest import BackupManifest
from siltstone.backups.restored_image import RestoredLosses
from siltstone.backups.restoring import RestoredStore, read_manifest
from siltstone.backups.restoring import restore as restore_store
from siltstone.cli.erase.following import carried_out
from siltstone.cli.output import copying_shown, print_json, results, table
from siltstone.cli.runner_options import RunnerChoice, runner_options
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.cli.words import cell, count_words, counted, size_words
from siltstone.kafka_client.positions import parse_time_ms
from siltstone.maintenance.erasure.report import ErasureReport
from siltstone.model.errors import InvalidRequest
from siltstone.model.objects import DEFAULT_BUCKET_ID
from siltstone.object_store.opening import open_store as open_bucket
from siltstone.offline.erasures import erasures_of
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import system_randomness

LOST_SHOWN_MAX = 20


class PointRefused(InvalidRequest):
    """A time and a version are given."""


@click.command()
@click.argument("source", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="FROM")
@click.option(
    "--at",
    metavar="TIME",
    help="Restore the store as it was then: 2013-07-01T12:30, 2h ago or @1372636800000.",
)
@click.option(
    "--at-version", type=click.IntRange(min=0), metavar="N", help="Restore this version of the metadata."
)
@click.option(
    "--objects", metavar="URL", multiple=True,
    help="Look for objects in this bucket, before the backup's and the original's; repeatable.",
)  # fmt: skip
@click.option(
    "--erasures-from", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="FOLDER",
    help="Learn from this newer backup what was erased by key since, where the original's buckets are gone.",
)  # fmt: skip
@runner_options
@json_option
@store_options
def restore(
    choice: StoreChoice,
    source: Path,
    at: str | None,
    at_version: int | None,
    objects: tuple[str, ...],
    erasures_from: Path | None,
    runner: RunnerChoice,
    as_json: bool,
) -> None:
    """Make a new store from the backup in the folder FROM.

    --store names the folder of the new store, and --bucket its bucket; neither may hold anything. The original is only
    read: its brokers may run. The restored store is another store, with an id of its own, so neither can write to what
    the other has.

    Objects are copied from the bucket of the backup or from those of the original, as far as they are kept there: an
    earlier point is possible for sweep.grace_period_ms. Offsets of groups are restored with their topic. The command
    says what the restored store lacks.

    Records that were erased from the original by their keys (siltstone erase) are erased again, also if the backup is
    older than the erasure, as far as a bucket of the original, the backup's or a newer backup names it.
    """
    runner.check()
    if at is not None and at_version is not None:
        raise PointRefused("a time and a version are given: give --at or --at-version")
    clock = SystemClock()
    time_ms = None if at is None else parse_time_ms(at, "--at", clock.now_ms())
    manifest = read_manifest(source)
    settings = choice.settings()
    target = open_bucket(settings.buckets[DEFAULT_BUCKET_ID], create=True)
    places = _places(manifest, objects)
    with copying_shown() as shown:
        done = restore_store(
            source, settings, target, [open_bucket(url, is_opened_later=True) for url in places],
            clock, system_randomness(), version=at_version, time_ms=time_ms,
            erasures_from=erasures_from, on_copied=shown,
        )  # fmt: skip
    erased = _erased_again(choice, runner, as_json=as_json)
    if as_json:
        print_json({**_document(done), "erasures": erased})
    else:
        _print(done, settings.folder)
        for report in erased:
            results().print(
                f"Erasure {report.erasure} of {report.topic} was applied again: {counted(report.records, 'record')}.",
                markup=False, soft_wrap=True,
            )  # fmt: skip


def _erased_again(choice: StoreChoice, runner: RunnerChoice, *, as_json: bool) -> list[ErasureReport]:
    """Carries out the erasures of the restored store. What is interrupted is continued by its maintenance."""
    with choice.open() as store:
        pending = [each for each in erasures_of(store.metadata.refresh()) if each.is_pending]
        return [carried_out(store, each.erasure_id, runner, wait=False, as_json=as_json) for each in pending]


def _places(manifest: BackupManifest, given: tuple[str, ...]) -> list[str]:
    """Returns where objects are looked for: the named buckets, the backup's, then the original's."""
    return [*dict.fromkeys([*given, *filter(None, [manifest.objects]), *manifest.buckets.values()])]


def _document(done: RestoredStore) -> dict[str, object]:
    return {
        "version": done.version,
        "topics": sorted(done.image.topic_ids),
        "objects": done.objects.count,
        "bytes": done.objects.size_bytes,
        "lost": done.losses,
    }


def _print(done: RestoredStore, folder: Path) -> None:
    out = results()
    out.print(
        f"The store at {folder} was restored from version {done.version}: {counted(len(done.image.topics), 'topic')}, "
        f"{counted(done.objects.count, 'object')}, {size_words(done.objects.size_bytes)}.",
        markup=False, soft_wrap=True,
    )  # fmt: skip
    _print_losses(done.losses)
    out.print(
        f"Check it with siltstone check --store {folder}, then start a broker.", markup=False, soft_wrap=True
    )


def _print_losses(lost: RestoredLosses) -> None:
    out = results()
    if lost.topics:
        out.print(f"Created after this point: {', '.join(lost.topics)}.", markup=False, soft_wrap=True)
    if lost.offsets:
        out.print(f"{count_words(lost.offset_count)} offsets were written after this point:")
        drawn = table("topic", ">partition", ">from", ">up to")
        for each in lost.offsets[:LOST_SHOWN_MAX]:
            drawn.add_row(
                cell(each.topic),
                str(each.partition),
                count_words(each.start_offset),
                count_words(each.end_offset),
            )
        out.print(drawn)
        if (more := len(lost.offsets) - LOST_SHOWN_MAX) > 0:
            out.print(f"and {counted(more, 'more partition')} (--json has all)")
    if count := len(lost.open_partitions):
        out.print(
            f"{counted(count, 'partition')} {'was' if count == 1 else 'were'} open at this point: records of its last "
            "minute may have been only in the logs of brokers, and are not restored.",
            markup=False, soft_wrap=True,
        )  # fmt: skip
