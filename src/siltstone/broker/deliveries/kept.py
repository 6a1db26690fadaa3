"""What the log keeps of a share group's progress, and the way back. Pure.

Locks are not kept: a record that a member has acquired is kept as what it was before, available, with the deliveries
until then. So acquiring writes nothing. What a release, a lock's end or an acknowledgement changes is the difference
between two progresses.
"""

from collections.abc import Iterable, Iterator

from siltstone.broker.deliveries.progress import DeliverySpan, DeliveryState, ProgressDraft, ShareProgress
from siltstone.object_formats.share_state import StateBatch


def batches_of(progress: ShareProgress) -> Iterator[StateBatch]:
    """Yields what is to be kept of the whole progress beside its start."""
    return _batches(progress.spans)


def changed_batches(before: ShareProgress, after: ShareProgress) -> Iterator[StateBatch]:
    """Yields the batches of ``after`` that ``before`` does not have. Locks alone are no difference."""
    low, high = 0, 0
    old, new = before.spans, after.spans
    while low < min(len(old), len(new)) and old[low] is new[low]:
        low += 1
    while high < min(len(old), len(new)) - low and old[-1 - high] is new[-1 - high]:
        high += 1
    known = set(_batches(old[low : len(old) - high]))
    return (batch for batch in _batches(new[low : len(new) - high]) if batch not in known)


def has_changed(before: ShareProgress, after: ShareProgress) -> bool:
    """Whether the log has to hear of the difference."""
    return before.start_offset != after.start_offset or next(changed_batches(before, after), None) is not None


def progress_from(start_offset: int, batches: Iterable[StateBatch]) -> ShareProgress:
    """Offsets between the batches are available, and were never delivered."""
    return with_batches(ShareProgress(start_offset), start_offset, batches)


def with_batches(before: ShareProgress, start_offset: int, batches: Iterable[StateBatch]) -> ShareProgress:
    """Returns the progress after a change of the log."""
    draft = ProgressDraft(before)
    draft.start_at(start_offset)
    for batch in batches:
        first, end = max(batch.first_offset, draft.start_offset), batch.last_offset + 1
        if first >= end:
            continue
        if draft.end_offset < end:
            if draft.end_offset < first:
                draft.extend(DeliverySpan(draft.end_offset, first, DeliveryState.AVAILABLE))
            draft.extend(DeliverySpan(draft.end_offset, end, DeliveryState.AVAILABLE))
        state, count = DeliveryState(batch.state), batch.delivery_count
        draft.change(first, end, lambda span, s=state, c=count: DeliverySpan(span.first, span.end, s, c))  # type: ignore[misc]
    return draft.progress()


def without_locks(progress: ShareProgress) -> ShareProgress:
    """Returns what another node finds in the log."""
    return progress_from(progress.start_offset, batches_of(progress))


def _batches(spans: Iterable[DeliverySpan]) -> Iterator[StateBatch]:
    """Neighbours that only locks tell apart are one batch, so that a lock makes no difference."""
    last: StateBatch | None = None
    for span in spans:
        state, count = span.state, span.count
        if state is DeliveryState.ACQUIRED:
            state, count = DeliveryState.AVAILABLE, count - 1
        if last is not None and (last.last_offset + 1, last.state, last.delivery_count) == (
            span.first,
            state,
            count,
        ):
            last = StateBatch(last.first_offset, span.end - 1, int(state), count)
            continue
        if last is not None:
            yield last
        last = StateBatch(span.first, span.end - 1, int(state), count) if count or state.is_final else None
    if last is not None:
        yield last
