"""What is wrong with a store, each with what to do. Pure.

A problem is a fact of the metadata, so that the same store gives the same list to everybody.
"""

from collections.abc import Iterator, Sequence
from urllib.parse import quote

import msgspec

from siltstone.carrying.pipeline.set_aside import all_set_aside, why_late
from siltstone.console.views.topics import Sees
from siltstone.foundation.quantity_words import counted, time_words
from siltstone.metadata.entities import JobState, NodeState, StreamState
from siltstone.metadata.image import MetadataImage
from siltstone.offline.pressure import Pressure, Space
from siltstone.tables.inspecting import TableRow, table_rows


class Problem(msgspec.Struct, frozen=True):
    """``command`` does what ``remedy`` says, or shows more; ``page`` is where the console shows it."""

    title: str
    remedy: str
    command: str = ""
    page: str = ""


def problems(
    image: MetadataImage,
    now_ms: int,
    sees: Sees,
    spaces: Sequence[Space] = (),
    read_only: str = "",
    tables: Sequence[TableRow] | None = None,
    oldest: tuple[int, int] | None = None,
    *,
    of_cluster: bool = True,
) -> list[Problem]:
    """Returns the problems, the gravest first. ``tables`` and ``oldest`` (of ``why_late``) are
    given by a caller that has them already. Without ``of_cluster`` only problems of topics are returned."""
    rows = table_rows(image) if tables is None else tables
    if not of_cluster:
        return [*_of_tables(rows, sees), *_of_units(image, sees, only_topics=True)]
    found = [
        *_of_spaces(spaces), *_of_nodes(image), *_of_tables(rows, sees), *_of_units(image, sees),
        *_of_jobs(image, now_ms),
    ]  # fmt: skip
    if late := why_late(image, now_ms, oldest):
        title, _, remedy = late.partition(". ")
        found.append(Problem(title, remedy, "siltstone maintain run", "/maintenance"))
    if read_only:
        found.append(Problem("The metadata can only be read", read_only))
    return found


def _of_spaces(spaces: Sequence[Space]) -> Iterator[Problem]:
    for each in spaces:
        if each.pressure is Pressure.FULL:
            yield Problem(
                f"{each.name} is {each.use:.0%} full",
                "compaction waits for free space; free some, or shorten retention",
                page="/maintenance",
            )


def _of_nodes(image: MetadataImage) -> Iterator[Problem]:
    for node in image.nodes.values():
        # A node that was stopped has closed its streams; a stream that is open may have more records in the node's log.
        is_open = (
            each.owner == node.node_id and each.state is StreamState.OPENED for each in image.streams.values()
        )
        if node.state is NodeState.FENCED and any(is_open):
            leads = image.leader_counts.get(node.node_id, 0)
            yield Problem(
                f"Node {node.node_id} is silent and leads {counted(leads, 'partition')}",
                "start it again: its log may hold the only copy of the newest records",
                f"siltstone serve --node-id {node.node_id}",
                "/cluster",
            )


def _of_tables(rows: Sequence[TableRow], sees: Sees) -> Iterator[Problem]:
    for row in rows:
        if row.trouble and sees(row.topic):
            yield Problem(
                f"The table of {row.topic} falls behind: {row.trouble}",
                "mend the cause; the export is tried again by itself",
                f"siltstone tables explain {row.topic}",
                f"/tables/{row.topic}",
            )
        if row.dead_letters and sees(row.topic):
            yield Problem(
                f"{counted(row.dead_letters, 'record')} of {row.topic} did not fit its table",
                "look at the dead letters",
                f"siltstone tables show {row.topic} --errors",
                f"/tables/{quote(row.topic, safe='')}/dead-letters",
            )


def _of_units(image: MetadataImage, sees: Sees, *, only_topics: bool = False) -> Iterator[Problem]:
    for aside in all_set_aside(image):
        if not only_topics if aside.topic is None else sees(aside.topic):
            yield Problem(
                f"{aside.kind}: {aside.name} failed {counted(aside.failures, 'time')}: {aside.reason}",
                f"it is tried again at {time_words(aside.retry_at_ms)} UTC",
                "siltstone maintain status",
                "/maintenance",
            )


def _of_jobs(image: MetadataImage, now_ms: int) -> Iterator[Problem]:
    for job in image.jobs.values():
        if job.state is JobState.RUNNING and job.lease_until_ms < now_ms:
            yield Problem(
                f"Job {job.job_id}, {job.kind}, has lost its driver",
                "the next run takes it over, or cancel it",
                f"siltstone maintain cancel {job.job_id}",
                "/maintenance",
            )
