"""docs/topic-configurations.md is what the code says."""

import pytest

from siltstone.topic_configs.rows import TABLE, Effect
from support.pages.topic_config_reference import PAGE, written

TEXT = PAGE.read_text()


def test_the_table_is_that_of_the_code() -> None:
    assert written(TEXT) == TEXT, "run: python tests/support/pages/topic_config_reference.py"


@pytest.mark.parametrize("effect", Effect)
def test_every_effect_is_explained_and_occurs(effect: Effect) -> None:
    assert f"**{effect.value}**: " in TEXT.replace("\n", " ")
    assert effect in {row.effect for row in TABLE.values()}
