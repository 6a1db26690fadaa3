"""``siltstone buckets``: lists the buckets of a store, adds, drains and removes one, gives up one that is lost, and
chooses how new objects are spread over them.

The commands work on the store's metadata, and brokers in use follow within a second. A bucket is listed first and
becomes writable when it is marked as the store's and has taken a write, so no process puts an object into a place that
turns out to be another store's.
"""

from pathlib import Path

import click

from siltstone.cli.buckets.listing import (
    bucket_rows,
    buckets_table,
    listed_or_opened,
    lost_table,
    strategy_words,
)
from siltstone.cli.in_order import InOrder
from siltstone.cli.output import print_json, progress, remarks, results
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.cli.words import cell, counted
from siltstone.maintenance.copies.lost_bucket import (
    GivenUp,
    give_up,
    kept_objects,
    lost_ranges,
    refuse_unless_lost,
)
from siltstone.maintenance.relocation.planning import objects_to_move
from siltstone.metadata.buckets import (
    WEIGHT_MAX,
    AddBucket,
    RemoveBucket,
    SetBucketState,
    SetWriteStrategy,
    bucket_list_of,
)
from siltstone.metadata.store_id import store_id_of
from siltstone.model.buckets import BucketState, StrategyType, WriteStrategy
from siltstone.object_store.opening import canonical_url
from siltstone.object_store.opening import open_store as open_bucket
from siltstone.object_store.port import FolderMissing
from siltstone.offline.opening.store import Store
from siltstone.runtime.randomness import random_token
from siltstone.server.bucket_identity import claim_bucket, refuse_place, release_place

bucket_argument = click.argument("bucket_id", metavar="BUCKET", type=click.IntRange(0, 2**31 - 1))


COPIES_DEFAULT = 2


@click.group(cls=InOrder, invoke_without_command=True)
@json_option
@store_options
@click.pass_context
def buckets(context: click.Context, choice: StoreChoice, as_json: bool) -> None:
    """List the buckets of a store, add, drain or remove one, and choose how new objects are spread over them.

    Each object stays in the bucket that it was put into, and is read from there, whatever the strategy is now.
    """
    if context.invoked_subcommand is None:
        list_buckets(choice, as_json)


@buckets.command("list")
@json_option
@store_options
def list_(choice: StoreChoice, as_json: bool) -> None:
    """List the buckets of a store, as siltstone buckets does."""
    list_buckets(choice, as_json)


def list_buckets(choice: StoreChoice, as_json: bool) -> None:
    with choice.open() as store:
        _show(store, as_json)


@buckets.command()
@click.argument("url", metavar="URL")
@click.option(
    "--weight",
    type=click.IntRange(1, WEIGHT_MAX),
    metavar="N",
    default=1,
    help="Share of this bucket under dynamic-sharding, beside the weights of the others [1].",
)
@json_option
@store_options
def add(choice: StoreChoice, url: str, weight: int, as_json: bool) -> None:
    """Add a bucket: s3://bucket/prefix, file:///folder, or the path of a folder.

    The bucket is tried with a small object, marked as the store's, and then used by all brokers within a second. The
    URL is stored in the metadata for every process that uses the store; where credentials or endpoints differ, the
    setting buckets.N of a machine comes first. Adding a URL again changes its weight.
    """
    with choice.open() as store:
        is_new = add_bucket(store, _as_url(url), weight)
        _show(store, as_json)
        if is_new and not as_json:
            remarks().print(
                cell(
                    "Other processes find the bucket by themselves; those on other machines need credentials for it."
                ),
                style="dim",
            )


@buckets.command()
@bucket_argument
@json_option
@store_options
def drain(choice: StoreChoice, bucket_id: int, as_json: bool) -> None:
    """Put no new objects into a bucket, and have maintenance copy its objects into the others.

    The kind of maintenance relocation copies them: siltstone maintain serve by itself, siltstone maintain run --kind
    relocation at once. Everything stays readable. Adding the bucket's URL again ends the draining.
    """
    with choice.open() as store:
        store.metadata.execute(SetBucketState(bucket_id, BucketState.DRAINING))
        _show(store, as_json)
        left = objects_to_move(store.metadata.image)
        if not as_json:
            remarks().print(
                f"{counted(len(left), 'object')} to relocate: siltstone maintain run --kind relocation, or the "
                "maintenance service by itself",
                style="dim",
            )


@buckets.command()
@bucket_argument
@json_option
@store_options
def remove(choice: StoreChoice, bucket_id: int, as_json: bool) -> None:
    """Forget a bucket that is drained and empty.

    The command is refused while the metadata names a write-ahead log or an object there, also an object that waits for
    its deletion after the grace period. The store's marker is deleted from the bucket, so that the place can be used
    for anything.
    """
    with choice.open() as store:
        listed = bucket_list_of(store.metadata.image).bucket(bucket_id)
        store.metadata.execute(RemoveBucket(bucket_id))
        assert listed is not None
        others = _release(store, listed.url)
        _show(store, as_json)
    if others and not as_json:
        remarks().print(
            cell(f"{counted(others, 'key')} that the metadata does not name stay in {listed.url}.")
        )


@buckets.command()
@bucket_argument
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Continue without the bucket, and without the records that were only there.",
)
@json_option
@store_options
def lost(choice: StoreChoice, bucket_id: int, accept_loss: bool, as_json: bool) -> None:
    """List the offsets that were only in a bucket that is lost for good, or give the bucket up.

    Without --accept-loss nothing is changed: the offsets whose only copy was there are listed. With it, objects that
    are in other buckets continue without this one, and consumers read on behind the listed offsets. The command is
    refused while the bucket answers, since it can be drained then, and while the other buckets are too few for new
    objects.
    """
    with choice.open_without(bucket_id) as store:
        if not accept_loss:
            refuse_unless_lost(store.context, bucket_id)
            image = store.metadata.image
            found = GivenUp(tuple(lost_ranges(image, bucket_id)), kept_objects(image, bucket_id))
            _show_lost(bucket_id, found, as_json)
            return
        with progress(remarks()) as bars:
            task = bars.add_task("lost objects replaced", total=None)
            done = give_up(
                store.context,
                bucket_id,
                lambda count, total: bars.update(task, completed=count, total=total),
            )
        if as_json:
            _show_lost(bucket_id, done, as_json)
            return
        results().print(
            cell(
                f"Bucket {bucket_id} is given up: {counted(len(done.lost), 'range')} lost, "
                f"{counted(done.kept_objects, 'object')} in other buckets."
            )
        )
        _show(store, as_json)


def _show_lost(bucket_id: int, found: GivenUp, as_json: bool) -> None:
    if as_json:
        print_json({"bucket": bucket_id, "lost": found.lost, "kept_objects": found.kept_objects})
        return
    if found.lost:
        results().print(lost_table(found.lost))
    what = (
        f"{counted(len(found.lost), 'range')} {'was' if len(found.lost) == 1 else 'were'} only in bucket {bucket_id}"
        if found.lost
        else f"Nothing was only in bucket {bucket_id}"
    )
    results().print(
        cell(
            f"{what}; {counted(found.kept_objects, 'object')} {'is' if found.kept_objects == 1 else 'are'} in other "
            f"buckets. siltstone buckets lost {bucket_id} --accept-loss continues without it."
        ),
        soft_wrap=True,
    )


@buckets.command()
@click.argument("name", metavar="NAME", type=click.Choice([each.value for each in StrategyType]))
@click.option(
    "--order", metavar="ID,ID,…", help="failover, replication: these buckets first, in this order [by id]."
)
@click.option(
    "--copies",
    type=click.IntRange(2),
    metavar="N",
    help="replication: put each object into this many buckets [2].",
)
@click.option(
    "--copies-min",
    type=click.IntRange(1),
    metavar="N",
    help="replication: while fewer buckets take writes, this many copies are enough [as --copies].",
)
@json_option
@store_options
def strategy(
    choice: StoreChoice,
    name: str,
    order: str | None,
    copies: int | None,
    copies_min: int | None,
    as_json: bool,
) -> None:
    """Choose how new objects are spread over the writable buckets.

    \b
    failover          the first bucket; the next one while it takes no writes
    round-robin       the bucket that was given the fewest bytes so far
    dynamic-sharding  the same, relative to the weights of the buckets
    replication       --copies buckets, before anything counts as uploaded

    Stream objects of one partition go to one bucket under each of the first three. While a bucket takes no writes the
    others take its share. Objects that are there already stay where they are; under replication the kind of maintenance
    copies gives them the copies that they lack.
    """
    with choice.open() as store:
        kind = StrategyType(name)
        if kind is StrategyType.REPLICATION:
            chosen = WriteStrategy(kind, _ids(order), copies or COPIES_DEFAULT, copies_min or 0)
        elif copies or copies_min:
            raise click.BadParameter(
                f"{name} puts each object into one bucket: leave out --copies and --copies-min"
            )
        else:
            chosen = WriteStrategy(kind, _ids(order))
        store.metadata.execute(SetWriteStrategy(chosen))
        _show(store, as_json)


def _show(store: Store, as_json: bool) -> None:
    image = store.metadata.refresh()
    listed = listed_or_opened(image, store.buckets.urls, store.buckets.default_bucket_id)
    rows = bucket_rows(image, listed)
    if as_json:
        print_json({"strategy": listed.strategy, "buckets": rows})
        return
    results().print(buckets_table(rows))
    results().print(cell(strategy_words(listed)))


def _as_url(place: str) -> str:
    return place if ":" in place else Path(place).absolute().as_uri()


def add_bucket(store: Store, url: str, weight: int = 1) -> bool:
    """Tries a bucket, marks it as the store's and makes it writable. Returns whether it is a new one. Raises what the
    bucket and the metadata raise."""
    url = canonical_url(url)
    listed = bucket_list_of(store.metadata.image).buckets
    known = [each.url for each in listed if not each.is_removed and canonical_url(each.url) == url]
    if not known:
        _try_place(store, url)
    added = store.metadata.execute(AddBucket(known[0] if known else url, weight))
    claim_bucket(store.buckets, store.metadata, added.id)
    store.buckets.probe(added.id, _token(store))
    store.metadata.execute(SetBucketState(added.id, BucketState.WRITABLE))
    return not known


def _try_place(store: Store, url: str) -> None:
    """Tries the bucket before it is listed, and makes its folder if it is missing. Raises what ``refuse_place`` raises,
    and what the bucket raises."""
    opened = open_bucket(url, settings=store.settings.retry, create=True)
    try:
        store_id = store_id_of(store.metadata.image)
        refuse_place(opened, store_id or "")
    finally:
        opened.close()


def _release(store: Store, url: str) -> int:
    """What ``release_place`` returns for the bucket at the URL; 0 for a folder that is not there."""
    try:
        opened = open_bucket(url, settings=store.settings.retry)
    except FolderMissing:
        return 0
    try:
        return release_place(opened)
    finally:
        opened.close()


def _token(store: Store) -> str:
    return f"added-{random_token(store.context.rng)}"


def _ids(order: str | None) -> tuple[int, ...]:
    if not order:
        return ()
    try:
        return tuple(int(each) for each in order.split(","))
    except ValueError:
        raise click.BadParameter(f"{order!r} is not a list of bucket ids: write --order 1,0") from None
