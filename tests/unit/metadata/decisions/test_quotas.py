"""Which quotas a store takes, and which records change them."""

from typing import Any

import pytest

from siltstone.metadata.applying import apply_records
from siltstone.metadata.decisions.fences import Decision
from siltstone.metadata.decisions.quotas import check_change
from siltstone.metadata.decisions.table import decide
from siltstone.metadata.image import ImageDraft, MetadataImage
from siltstone.metadata.quotas import AlterQuotas, QuotaChange
from siltstone.metadata.records import QuotaRemoved, QuotaSet
from siltstone.metadata.refusals import QuotaNotAllowed, TooManyQuotas
from siltstone.model.quotas import ClientQuota, QuotaEntityType, QuotaKey, entity_of
from siltstone.model.serving_limits import QUOTAS_CHANGED_AT_ONCE_MAX, QUOTAS_MAX

ADA = entity_of(user="ada")
IN, OUT = QuotaKey.PRODUCER_BYTE_RATE, QuotaKey.CONSUMER_BYTE_RATE
CONNECTIONS = QuotaKey.CONNECTION_CREATION_RATE


def change(*limits: tuple[QuotaKey, float | None], entity: Any = ADA) -> QuotaChange:
    return QuotaChange(entity, limits)


def decided(image: MetadataImage, *changes: QuotaChange) -> tuple[Any, MetadataImage]:
    decision = decide(image, AlterQuotas(changes), 0)
    if not isinstance(decision, Decision):
        raise decision
    draft = ImageDraft(image)
    apply_records(draft, decision.records)
    return decision.records, draft.frozen(image.version + 1)


def test_limits_are_set_changed_and_removed() -> None:
    records, image = decided(MetadataImage(), change((IN, 5.0), (OUT, 7.0)))
    assert records == (QuotaSet(ADA, IN, 5.0), QuotaSet(ADA, OUT, 7.0))
    assert list(image.quotas.values()) == [ClientQuota(ADA, ((OUT, 7.0), (IN, 5.0)))]
    assert decided(image, change((IN, 5.0)))[0] == ()  # a command that is repeated changes nothing
    records, image = decided(image, change((IN, None), (OUT, 8.0)))
    assert records == (QuotaRemoved(ADA, IN), QuotaSet(ADA, OUT, 8.0))
    assert decided(image, change((IN, None)))[0] == ()
    _, image = decided(image, change((OUT, None)))
    assert not image.quotas


@pytest.mark.parametrize(
    ("refused", "why"),
    [
        (change((IN, 1.0), entity=()), "names a user"),
        (change((IN, 1.0), entity=(*ADA, *ADA)), "each once"),
        (change((IN, 1.0), entity=(*entity_of(ip="10.0.0.7"), *ADA)), "of no user"),
        (change((IN, 1.0), entity=((QuotaEntityType.USER, ""),)), "1 to 4,096 bytes"),
        (change((IN, 1.0), entity=entity_of(user="a\0b")), "none of value 0"),
        (change((IN, 1.0), entity=entity_of(user="\ud800")), "UTF-8"),
        (change((IN, 1.0), entity=entity_of(user="x" * 4_097)), "4,096 bytes"),
        (change((CONNECTIONS, 1.0)), "limit of addresses"),
        (change((IN, 1.0), entity=entity_of(ip=None)), "users and client ids"),
        (change((CONNECTIONS, 1.0), entity=entity_of(ip="localhost")), "is no address"),
        (change((CONNECTIONS, 1.0), entity=entity_of(ip="::0001")), "write ::1"),
        (change((IN, 0.0)), "greater than 0"),
        (change((IN, -1.0)), "greater than 0"),
        (change((IN, float("nan"))), "greater than 0"),
        (change((IN, float("inf"))), "greater than 0"),
        (change((IN, 1.5)), "whole number"),
        (change((IN, 2.0**60)), "whole number"),
        (change((IN, 1.0), (IN, 2.0)), "named twice"),
    ],
)
def test_what_no_store_may_have(refused: QuotaChange, why: str) -> None:
    with pytest.raises(QuotaNotAllowed, match=why):
        check_change(refused)


def test_fractions_are_for_percentages_and_changes_of_partitions() -> None:
    decided(
        MetadataImage(), change((QuotaKey.REQUEST_PERCENTAGE, 12.5), (QuotaKey.CONTROLLER_MUTATION_RATE, 0.1))
    )


def test_an_entity_is_named_once_and_there_are_not_too_many() -> None:
    with pytest.raises(QuotaNotAllowed, match="twice"):
        decided(MetadataImage(), change((IN, 1.0)), change((OUT, 1.0)))
    many = [change((IN, 1.0), entity=entity_of(user=f"u{n}")) for n in range(QUOTAS_CHANGED_AT_ONCE_MAX + 1)]
    with pytest.raises(TooManyQuotas):
        decided(MetadataImage(), *many)
    draft = ImageDraft(MetadataImage())
    apply_records(draft, [QuotaSet(entity_of(client_id=f"c{n}"), IN, 1.0) for n in range(QUOTAS_MAX)])
    full = draft.frozen(1)
    with pytest.raises(TooManyQuotas):
        decided(full, change((IN, 1.0)))
    decided(full, change((IN, 2.0), entity=entity_of(client_id="c0")))
