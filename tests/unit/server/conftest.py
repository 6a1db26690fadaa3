"""What every test of the server has around it."""

from collections.abc import Iterator

import pytest

from support.processes.new_threads import watched


@pytest.fixture(autouse=True)
def threads_watched() -> Iterator[None]:
    with watched():
        yield
