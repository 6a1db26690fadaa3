"""One Spark for all tests here: starting one costs more than all of them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from siltstone.spark.session import start_session

TESTS = Path(__file__).parents[1]

# Spares the compiler work that pays only for large data: a test run is all start-up.
FOR_SMALL_DATA = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.executorEnv.PYTHONPATH": f"{TESTS.parent / 'src'}:{TESTS}",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    session = start_session("local[2]", "siltstone tests", FOR_SMALL_DATA)
    yield session
    session.stop()
