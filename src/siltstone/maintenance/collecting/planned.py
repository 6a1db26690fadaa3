"""The units of a collection as they are shown: what they are called, why they are worth it, what they cost."""

from collections.abc import Sequence

from siltstone.foundation.quantity_words import counted, size_words
from siltstone.maintenance.collecting.choosing import Candidate, Round
from siltstone.maintenance.collecting.looking import object_name
from siltstone.maintenance.pipeline.kind import PlannedUnit
from siltstone.maintenance.planning.stream_objects.groups import Group
from siltstone.maintenance.topic_streams import topic_streams
from siltstone.metadata.image import MetadataImage


def round_unit(members: Round, object_count: int, *, is_alone: bool) -> PlannedUnit:
    """``is_alone``: it failed before, and is known by the object's name since."""
    first = members[0].object_id
    live = _live(members)
    return PlannedUnit(
        name=object_name(first) if is_alone else f"objects from {first}",
        reason=_reason(members, "stream set object"),
        bytes_read=live,
        bytes_written=live,
        objects_before=len(members),
        objects_after=object_count,
        detail=_detail(members),
    )


def group_unit(group: Group, candidate: Candidate, image: MetadataImage) -> PlannedUnit:
    stream = topic_streams(image).get(group.stream_id)
    return PlannedUnit(
        name=group.name,
        reason=_reason((candidate,), "stream object"),
        topic=None if stream is None else stream.topic.name,
        partition=None if stream is None else stream.partition,
        stream_id=group.stream_id,
        bytes_read=candidate.live.live_bytes,
        bytes_written=candidate.live.live_bytes,
        objects_before=1,
        objects_after=1,
        detail=_detail((candidate,)),
    )


def _reason(members: Sequence[Candidate], noun: str) -> str:
    live, dead = _live(members), _dead(members)
    share = live / max(1, live + dead)
    return f"{counted(len(members), noun)}, {share:.0%} live: {size_words(dead)} come free"


def _detail(members: Sequence[Candidate]) -> dict[str, str]:
    live, dead = _live(members), _dead(members)
    return {
        "live ratio": f"{members[0].ratio:.4f}",
        "written for each byte freed": f"{live / dead:.2f}" if dead else "nothing is freed",
    }


def _live(members: Sequence[Candidate]) -> int:
    return sum(each.live.live_bytes for each in members)


def _dead(members: Sequence[Candidate]) -> int:
    return sum(each.live.dead_bytes for each in members)
