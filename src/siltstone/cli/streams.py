"""``siltstone streams``: lists the streams of a store."""

import click
import msgspec

from siltstone.broker.topics.names import INTERNAL_TOPICS
from siltstone.cli.output import is_drawn, print_json, results, table
from siltstone.cli.store_options import StoreChoice, json_option, store_options
from siltstone.cli.words import cell, count_words, counted, size_words
from siltstone.metadata.buckets import bucket_list_of
from siltstone.metadata.entities import SINK_NODE, StreamMetadata
from siltstone.metadata.image import MetadataImage

NARROW_COLUMNS = 100
"""A narrower terminal shows no epoch and no owner, so that a row stays on one line."""

OF_PARTITION = {"topic", "partition", "kind"}
"""The tags of a stream that belongs to a partition."""


class StreamRow(msgspec.Struct, frozen=True):
    """``objects``: objects that hold data of the stream; ``buckets``: the ids of the buckets that they are in;
    ``size_bytes``: bytes of the stream in them; ``owner``: the node that opened the stream last, -1 before the first
    opening."""

    stream_id: int
    state: str
    epoch: int
    owner: int
    start_offset: int
    end_offset: int
    objects: int
    buckets: list[int]
    size_bytes: int
    tags: dict[str, str]


def stream_rows(image: MetadataImage) -> list[StreamRow]:
    return [_row(image.streams[stream_id], image) for stream_id in sorted(image.streams)]


def _row(stream: StreamMetadata, image: MetadataImage) -> StreamRow:
    objects = {held.object_id for held in stream.ranges}
    return StreamRow(
        stream_id=stream.stream_id,
        state=stream.state.name,
        epoch=stream.epoch,
        owner=stream.owner,
        start_offset=stream.start_offset,
        end_offset=stream.end_offset,
        objects=len(objects),
        buckets=sorted(
            {
                bucket_id
                for each in objects
                if each in image.objects
                for bucket_id in image.objects[each].bucket_ids
            }
        ),
        size_bytes=sum(held.size_bytes for held in stream.ranges),
        tags=stream.tags,
    )


@click.command()
@json_option
@store_options
def streams(choice: StoreChoice, as_json: bool) -> None:
    """List the streams of a store.

    Each line shows one stream: the node that may append to it (owner), the offsets from start up to, not including,
    end, how many objects hold them, and in which buckets, if the store has several. Compaction gathers a stream into
    fewer objects. A terminal shows no streams of internal topics to which nothing was written, and with less than 100
    columns neither epoch nor owner.
    """
    with choice.open() as store:
        image = store.metadata.image
    rows = stream_rows(image)
    if as_json:
        print_json({"version": image.version, "streams": rows})
        return
    _print_table(rows, bucket_list_of(image).are_several)


def _print_table(rows: list[StreamRow], names_buckets: bool) -> None:
    if not rows:
        results().print("This store has no streams yet.")
        return
    out = results()
    kept = [row for row in rows if not (is_drawn() and _is_empty_and_internal(row))]
    wide = () if is_drawn() and out.width < NARROW_COLUMNS else (">epoch", ">owner")
    buckets = ("buckets",) if names_buckets else ()
    shown = table(">id", "state", *wide, ">start", ">end", ">objects", *buckets, ">bytes", "tags")
    for row in kept:
        owner = (str(row.epoch), _owner_words(row.owner))
        shown.add_row(
            str(row.stream_id),
            row.state.lower(),
            *(owner if wide else ()),
            count_words(row.start_offset),
            count_words(row.end_offset),
            count_words(row.objects),
            *((",".join(map(str, row.buckets)),) if names_buckets else ()),
            size_words(row.size_bytes),
            cell(_tag_words(row.tags)),
        )
    out.print(shown)
    if left_out := len(rows) - len(kept):
        out.print(f"and {counted(left_out, 'empty stream')} of internal topics (--json has all)")


def _owner_words(owner: int) -> str:
    """Returns the node id, or ``sink`` for a stream that Spark has written without a broker."""
    if owner == SINK_NODE:
        return "sink"
    return str(owner) if owner >= 0 else "-"


def _is_empty_and_internal(row: StreamRow) -> bool:
    """Returns whether the stream is an empty one of an internal topic. ``__consumer_offsets`` has a hundred streams,
    most of them empty, which would hide the streams of the topics."""
    return row.end_offset == 0 and row.tags.get("topic") in INTERNAL_TOPICS


def _tag_words(tags: dict[str, str]) -> str:
    """Returns ``flights-0 data`` for the data stream of a partition, and otherwise each tag with its name."""
    if tags.keys() == OF_PARTITION:
        return f"{tags['topic']}-{tags['partition']} {tags['kind']}"
    return " ".join(f"{name}={value}" for name, value in sorted(tags.items()))
