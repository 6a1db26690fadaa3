from collections import Counter

import pytest

from siltstone.model.objects import ObjectKind, ObjectState, object_id_of_key, object_key


@pytest.mark.parametrize("object_id", [0, 1, 9, 10, 2**31, 2**32 + 1, 2**63, 2**64 - 1])
def test_key_and_id_are_each_others_inverse(object_id):
    assert object_id_of_key(object_key(object_id)) == object_id


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/",
        "objects/00000000000000000007",
        "00000000000000000007",
        "zz/objects/00000000000000000007",
        object_key(7).upper() + " ",
        object_key(7)[:-1],
        object_key(7) + "0",
        "x/" + object_key(7),
        object_key(7).replace("objects", "wal"),
        object_key(7).replace("7", "٧"),
        "00/objects/99999999999999999999",
        f"00/objects/{2**64}",
    ],
)
def test_foreign_keys_have_no_id(key):
    assert object_id_of_key(key) is None


def test_a_key_under_another_ids_prefix_is_foreign():
    prefix = next(object_key(i)[:2] for i in range(8, 100) if object_key(i)[:2] != object_key(7)[:2])
    assert object_id_of_key(prefix + object_key(7)[2:]) is None


def test_sequential_ids_spread_over_prefixes():
    assert len({object_key(object_id)[:2] for object_id in range(1000)}) > 200


def test_keys_are_what_they_always_were():
    """Objects are found by key only: changing this loses every object written before."""
    assert object_key(0) == "88/objects/00000000000000000000"
    assert object_key(12345) == "10/objects/00000000000000012345"


def test_labels():
    assert (ObjectKind.STREAM_SET_OBJECT.label, ObjectKind.STREAM_OBJECT.label) == ("SSO", "SO")


@pytest.mark.parametrize("step", [1, 2, 256])
def test_gc22_keys_are_spread_whatever_the_ids_have_in_common(step):
    """Ids all even, 16 prefixes: within a fifth of even."""
    count = 16_000
    prefixes = Counter(object_key(object_id)[0] for object_id in range(0, count * step, step))
    assert len(prefixes) == 16
    assert all(abs(held - count / 16) <= 0.2 * count / 16 for held in prefixes.values())


def test_states_and_kinds_are_stored_as_these_numbers():
    assert {state.name: state.value for state in ObjectState} == {
        "PREPARED": 1,
        "COMMITTED": 2,
        "DESTROYED": 3,
    }
    assert [(kind.name, kind.label) for kind in ObjectKind] == [
        ("STREAM_SET_OBJECT", "SSO"),
        ("STREAM_OBJECT", "SO"),
    ]
