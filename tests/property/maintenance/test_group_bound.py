"""The bound against a plain model: record by record, group by group."""

from hypothesis import given
from hypothesis import strategies as st

from siltstone.carrying.pipeline.kind import Scope
from siltstone.maintenance.retention.groups import GroupProgress, bound_of, group_bound
from siltstone.maintenance.retention.planning import plan_retention
from siltstone.model.limits import HOUR_MS
from support.broker.acked_topics import RECORDS, TOPIC_ID, acked_image, data_stream, registered

offsets = st.none() | st.integers(0, 12 * RECORDS)
groups = st.dictionaries(st.sampled_from("abcde"), offsets | st.just("let go"), max_size=5)


@given(
    registered_groups=st.lists(st.sampled_from("abcde"), unique=True, max_size=4),
    known=groups,
    sizes=st.lists(st.integers(1, 1_000), min_size=1, max_size=10),
    start=st.integers(0, 99),
)
def test_what_goes_has_been_read_by_all_and_nothing_that_was_has_to_stay(
    registered_groups, known, sizes, start
):
    image = acked_image(
        registered(*registered_groups, retention_ms="0"),
        {group: _progress(offset) for group, offset in known.items()},
        sizes=sizes,
        start_offset=start,
    )
    planned = plan_retention(image, Scope(), 1_000 * HOUR_MS, bound_of(image))
    trimmed_to = dict(planned.topics["flights"].trims.trims)[1] if planned.topics else start

    waited_for = {group: known.get(group) for group in registered_groups if known.get(group) != "let go"}
    unread = [
        o for o in range(start, len(sizes) * RECORDS) if any(o >= (at or 0) for at in waited_for.values())
    ]
    eligible = [i for i in range(len(sizes)) if not any(i * RECORDS <= o < (i + 1) * RECORDS for o in unread)]
    prefix = next((i for i in range(len(sizes) + 1) if i not in eligible), len(sizes))
    assert trimmed_to == max(prefix * RECORDS, start)

    bound = group_bound(image, data_stream(image))
    assert (bound is None) is not bool(waited_for)
    if bound is not None:
        assert bound.blocked_bytes == sum(sizes[prefix:])
        assert (waited_for[bound.group] or 0) <= min(
            at or 0 for at in waited_for.values()
        ) or bound.offset == start


def _progress(offset):
    if offset == "let go":
        return GroupProgress(let_go=(TOPIC_ID,))
    return GroupProgress() if offset is None else GroupProgress({TOPIC_ID: (offset,)})
