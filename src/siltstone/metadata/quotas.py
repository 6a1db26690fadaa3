"""Defines the command that changes the quotas of a store, and applies its records to an image draft.

Quotas are records of the metadata log, and no setting of a node, so all nodes know a change a moment later. Decided in
``decisions.quotas``; the nouns are in ``model.quotas``.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from siltstone.metadata.commands import Command
from siltstone.metadata.image import ImageDraft
from siltstone.metadata.records import QuotaRemoved, QuotaSet, Record
from siltstone.model.quotas import ClientQuota, QuotaEntity, QuotaKey, entity_key


class QuotaChange(msgspec.Struct, frozen=True):
    """What is changed of one entity: pairs of key and value; None removes the limit."""

    entity: QuotaEntity
    limits: tuple[tuple[QuotaKey, float | None], ...]


class AlterQuotas(Command[None], frozen=True):
    """→ None. Sets and removes limits, all or none. A limit that is removed while it is absent is no change. Refused
    with QuotaNotAllowed, TooManyQuotas. Idempotent."""

    changes: tuple[QuotaChange, ...]


# -- applying ------------------------------------------------------------------------------------------------


def _quota_set(draft: ImageDraft, record: QuotaSet) -> None:
    key = entity_key(record.entity)
    standing = draft.quotas.get(key)
    limits = {} if standing is None else dict(standing.limits)
    limits[record.key] = record.value
    draft.quotas[key] = ClientQuota(record.entity, tuple(sorted(limits.items())))


def _quota_removed(draft: ImageDraft, record: QuotaRemoved) -> None:
    key = entity_key(record.entity)
    standing = draft.quotas[key]
    left = tuple(each for each in standing.limits if each[0] is not record.key)
    assert len(left) < len(standing.limits), f"{record.key} is not limited"
    if left:
        draft.quotas[key] = ClientQuota(record.entity, left)
    else:
        del draft.quotas[key]


QUOTA_APPLIERS: Mapping[type[Record], Callable[[ImageDraft, Any], None]] = {
    QuotaSet: _quota_set,
    QuotaRemoved: _quota_removed,
}
