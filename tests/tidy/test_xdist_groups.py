"""Tests that share a server or a Spark are in one group, which one worker of pytest-xdist runs as a whole: else each
worker starts one of its own. That pytest and pytest-xdist no longer agreed about it was once noticed by nobody."""

from typing import Any

import pytest

from support.spark.shared_fixtures import SHARED_FIXTURES


@pytest.mark.xdist_group("of-the-tidy-tests")
def test_the_scheduler_finds_the_group_at_the_end_of_the_id(request: pytest.FixtureRequest) -> None:
    is_scheduled_by_group = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@of-the-tidy-tests") == is_scheduled_by_group


def test_what_is_expensive_to_start_is_used_by_one_group_only(request: pytest.FixtureRequest) -> None:
    groups: dict[str, set[Any]] = {}
    for item in request.session.items:
        for name in set(getattr(item, "fixturenames", ())) & SHARED_FIXTURES:
            groups.setdefault(name, set()).add(tuple(mark.args for mark in item.iter_markers("xdist_group")))
    assert all(len(found) == 1 for found in groups.values()), groups
