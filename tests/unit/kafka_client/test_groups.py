import pytest

from siltstone.kafka_client.groups import GroupSummary, ListedMember
from support.values.left_out import numbers_left_out

CHANCE = "a425fdd9-9c11-4f9c-a8a8-4add9c9a33f2"


@pytest.mark.parametrize(
    ("member_id", "instance", "client", "name"),
    [
        (f"c0-{CHANCE}", None, "c0", "c0-a425fdd9…"),
        (f"c0-{CHANCE}", "one", "c0", "one"),
        ("c0-short", None, "c0", "c0-short"),
        ("c0-12345678", None, "c0", "c0-12345678"),
        ("c0-123456789", None, "c0", "c0-12345678…"),
        ("something-else-altogether", None, "c0", "something-else-altogether"),
    ],
)
def test_a_member_has_a_short_name(member_id: str, instance: str | None, client: str, name: str) -> None:
    assert ListedMember(member_id, instance, client, "h", ()).name == name


@pytest.mark.parametrize(
    ("state", "is_empty"), [("Empty", True), ("Dead", True), ("Stable", False), ("Assigning", False)]
)
def test_which_groups_are_empty(state: str, is_empty: bool) -> None:
    assert GroupSummary("g", state).is_empty is is_empty


def test_what_is_left_out() -> None:
    assert numbers_left_out(GroupSummary).items() >= {"coordinator": -1}.items()
