"""The first gate: R1, R6, R7, and what there is to say of the group that holds retention up."""

import pytest
from msgspec.structs import replace

from siltstone.carrying.pipeline.kind import Scope
from siltstone.maintenance.retention.groups import (
    GroupProgress,
    bound_of,
    encode_progress,
    group_bound,
    key_of,
)
from siltstone.maintenance.retention.planning import plan_retention
from siltstone.metadata.image import ImageDraft
from siltstone.model.limits import HOUR_MS, MIB
from siltstone.model.objects import ObjectRange
from siltstone.offline.topic_streams import topic_streams
from support.broker.acked_topics import META, RECORDS, TOPIC_ID, acked_image, at, data_stream, registered

LATER_MS = 100 * HOUR_MS
SMALL_AND_SHORT = {"retention_bytes": str(5 * MIB), "retention_ms": str(HOUR_MS)}


def trimmed_to(image, now_ms=0):
    planned = plan_retention(image, Scope(), now_ms, bound_of(image))
    return dict(planned.topics["flights"].trims.trims)[1] if planned.topics else 0


def test_r1_what_a_group_has_not_read_stays_for_ever_and_the_group_is_named():
    image = acked_image(registered("g", **SMALL_AND_SHORT), {"g": at(0)})
    bound = group_bound(image, data_stream(image))
    assert (bound.offset, bound.group, bound.blocked_bytes) == (0, "g", 10 * MIB)
    assert bound.reason == "10.0 MiB wait for group g"
    assert trimmed_to(image, LATER_MS) == 0
    (unplanned,) = plan_retention(image, Scope(), LATER_MS, bound_of(image)).unplanned
    assert unplanned.reason == "flights-0: 10.0 MiB wait for group g"


def test_r2_once_the_group_is_at_the_end_size_decides():
    image = acked_image(
        registered("g", retention_bytes=str(5 * MIB), retention_ms="-1"), {"g": at(10 * RECORDS)}
    )
    assert group_bound(image, data_stream(image)).blocked_bytes == 0
    assert trimmed_to(image) == 5 * RECORDS


def test_r6_segments_go_when_every_group_has_committed_to_their_end():
    configs = registered("a", "b", retention_ms="1")
    inside = acked_image(configs, {"a": at(8 * RECORDS + 50), "b": at(3 * RECORDS + 50)})
    bound = group_bound(inside, data_stream(inside))
    assert (bound.group, bound.blocked_bytes) == ("b", 7 * MIB)
    assert trimmed_to(inside, LATER_MS) == 3 * RECORDS, "0, 1 and 2"
    one_short = acked_image(configs, {"a": at(8 * RECORDS + 50), "b": at(4 * RECORDS - 1)})
    assert trimmed_to(one_short, LATER_MS) == 3 * RECORDS
    through = acked_image(configs, {"a": at(8 * RECORDS + 50), "b": at(4 * RECORDS)})
    assert trimmed_to(through, LATER_MS) == 4 * RECORDS, "and 3"


def test_r7_without_a_registered_group_only_time_and_size_protect():
    image = acked_image({"siltstone.retention.ack": "true", "retention.ms": "1"}, {"stranger": at(0)})
    assert group_bound(image, data_stream(image)) is None
    assert trimmed_to(image, LATER_MS) == 10 * RECORDS


def test_registered_groups_hold_nothing_up_unless_the_topic_says_so():
    image = acked_image({"siltstone.retention.groups": "g"}, {"g": at(0)})
    assert group_bound(image, data_stream(image)) is None


def test_the_snapshots_of_a_partition_are_read_by_no_group():
    image = acked_image(registered("g"))
    assert group_bound(image, topic_streams(image)[META]) is None
    assert bound_of(image)(topic_streams(image)[META]) is None


@pytest.mark.parametrize(
    ("known", "why"),
    [
        pytest.param(None, "it has committed nothing", id="never-seen"),
        pytest.param(GroupProgress(), "it has committed nothing", id="nothing-here"),
        pytest.param(
            GroupProgress({TOPIC_ID: (-1,)}), "it has committed nothing", id="not-in-this-partition"
        ),
        pytest.param(b"{", "cannot be read", id="damaged"),
    ],
)
def test_a_group_of_which_nothing_is_known_counts_as_being_at_the_beginning(known, why):
    image = acked_image(
        registered("g", "h"), {"h": at(900)} | ({} if known is None else {"g": known}), start_offset=50
    )
    bound = group_bound(image, data_stream(image))
    assert (bound.offset, bound.group, bound.blocked_bytes) == (50, "g", 10 * MIB)
    assert bound.reason.startswith("10.0 MiB wait for group g: ") and why in bound.reason


def test_a_group_that_was_deleted_is_waited_for_no_more():
    image = acked_image(registered("g", "h"), {"g": GroupProgress(let_go=(TOPIC_ID,)), "h": at(300)})
    assert group_bound(image, data_stream(image)).group == "h"
    alone = acked_image(registered("g"), {"g": GroupProgress(let_go=(TOPIC_ID,))})
    assert group_bound(alone, data_stream(alone)) is None


def test_a_group_that_is_before_the_beginning_is_at_the_beginning():
    image = acked_image(registered("g"), {"g": at(3)}, start_offset=120)
    assert group_bound(image, data_stream(image)).offset == 120


def test_what_stands_in_the_active_segment_waits_as_well():
    """Nine closed segments of 1 MiB and, in the tenth, objects of 600 and 400 KiB that follow them."""
    image = acked_image(registered("g"), {"g": at(8 * RECORDS)}, sizes=(MIB,) * 9)
    draft = ImageDraft(image)
    end = 9 * RECORDS
    ranges = (
        ObjectRange(1, 7, end, end + 60, 600 * 1024, 1),
        ObjectRange(1, 8, end + 60, end + 100, 400 * 1024, 1),
    )
    draft.streams[1] = replace(image.streams[1], end_offset=end + 100, ranges=ranges)
    for offset, blocked_bytes in (
        (8 * RECORDS, MIB + 1_000 * 1024),
        (end, 1_000 * 1024),
        (end + 30, 700 * 1024),
        (end + 100, 0),
    ):
        draft.keys[key_of("g")] = encode_progress(at(offset))
        bound = group_bound(draft.frozen(2), data_stream(image))
        assert bound.blocked_bytes == blocked_bytes
        draft = ImageDraft(draft.frozen(3))
