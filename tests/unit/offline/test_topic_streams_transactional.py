"""From which offset on a partition may have transactions."""

from types import SimpleNamespace
from typing import Any

from siltstone.metadata.commands import PutKey
from siltstone.metadata.decisions.keys import decide_put_key
from siltstone.offline.topic_streams import put_transactional_from, transactional_from

TOPIC = "a" * 32


def image_of(*commands: PutKey) -> Any:
    image: Any = SimpleNamespace(keys={})
    for command in commands:
        for record in decide_put_key(image, command, 0).records:
            image.keys[record.key] = record.value
    return image


def test_without_a_transaction_there_is_none() -> None:
    image = image_of(put_transactional_from(TOPIC, 1, 7))
    assert transactional_from(image, TOPIC, 0) is None
    assert transactional_from(image, "b" * 32, 1) is None


def test_the_first_offset_stays() -> None:
    image = image_of(put_transactional_from(TOPIC, 1, 7), put_transactional_from(TOPIC, 1, 9))
    assert transactional_from(image, TOPIC, 1) == 7
    assert list(image.keys) == [f"transactional/{TOPIC}/1"]


def test_a_value_that_is_no_offset_flags_the_whole_partition() -> None:
    image = image_of(PutKey(f"transactional/{TOPIC}/0", b"?"))
    assert transactional_from(image, TOPIC, 0) == 0
