"""Filters of bindings: ANY, MATCH, null and exact names [Kafka: AclBindingFilter]."""

import pytest
from msgspec.structs import replace

from siltstone.broker.security.acls.filters import found_by, why_unfit
from siltstone.model.acls import AclBinding, AclFilter, AclOperation, AclResourceType, PatternType, Permission
from support.metadata.metadata_records import MAY_NOTHING, MAY_READ

TOPIC, ANY, MATCH = AclResourceType.TOPIC, PatternType.ANY, PatternType.MATCH
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED

ABC = replace(MAY_READ, pattern_type=LITERAL, name="abc")
AB_ = replace(MAY_READ, name="ab")
ABC_ = replace(MAY_READ, name="abc")
EVERY = replace(ABC, name="*")
OTHER = replace(ABC, name="xyz")
BINDINGS = (ABC, AB_, ABC_, EVERY, OTHER, MAY_NOTHING)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (AclFilter(), set(BINDINGS)),
        (AclFilter(TOPIC), {ABC, AB_, ABC_, EVERY, OTHER}),
        (AclFilter(TOPIC, ANY, "abc"), {ABC, ABC_}),
        (AclFilter(TOPIC, MATCH, "abc"), {ABC, AB_, ABC_, EVERY}),
        (AclFilter(TOPIC, MATCH, "ab"), {AB_, EVERY}),
        (AclFilter(TOPIC, LITERAL, "abc"), {ABC}),
        (AclFilter(TOPIC, PREFIXED, "abc"), {ABC_}),
        (AclFilter(TOPIC, LITERAL, "*"), {EVERY}),
        (AclFilter(name="kafka-cluster"), {MAY_NOTHING}),
        (AclFilter(principal="User:ada"), {ABC, AB_, ABC_, EVERY, OTHER}),
        (AclFilter(principal="User:*"), set()),
        (AclFilter(host="10.0.0.7"), {MAY_NOTHING}),
        (AclFilter(operation=AclOperation.ALL), {MAY_NOTHING}),
        (AclFilter(operation=AclOperation.DESCRIBE), set()),
        (AclFilter(permission=Permission.DENY), {MAY_NOTHING}),
        (AclFilter(AclResourceType.GROUP), set()),
    ],
)
def test_ac11_what_a_filter_finds(asked: AclFilter, found: set[AclBinding]) -> None:
    assert found_by(asked, BINDINGS) == sorted(found)


def test_a_filter_with_an_unknown_number_is_unfit() -> None:
    assert why_unfit(AclFilter()) is None
    assert why_unfit(AclFilter(operation=AclOperation.UNKNOWN)) == "the filter has an unknown operation"
