"""One Spark for all tests here: starting one costs more than all of them."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from oracles.apache_kafka import running_apache_kafka
from oracles.foreign_spark import ForeignSpark, running_foreign_spark
from oracles.java_artifacts import SPARK_KAFKA_CONNECTOR, JavaArtifactsUnavailable, fetch_jars
from siltstone.server.embedded import Broker
from siltstone.spark.starting import LIGHT_JVM, start_session
from support.engine.s3_server import ENVIRONMENT
from support.kafka.kafka_oracles import or_skip
from support.spark.shared_fixtures import SHARED_FIXTURES
from support.spark.spark_cluster import SparkCluster, running_spark_cluster

TESTS = Path(__file__).parents[1]

# Spares the compiler work that pays only for large data: a test run is all start-up.
FOR_SMALL_DATA = {
    **LIGHT_JVM,
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.executorEnv.PYTHONPATH": f"{TESTS.parent / 'src'}:{TESTS}",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    with patch.dict(
        os.environ, ENVIRONMENT
    ):  # of the JVM, and so of the processes that plan: the S3 server's key
        session = start_session("local[2]", "siltstone tests", {**FOR_SMALL_DATA, **kafka_connector()})
    yield session
    session.stop()


def kafka_connector() -> dict[str, str]:
    """The jars a session has to start with; none where they cannot be had, which is for their tests to notice."""
    try:
        return {"spark.jars": ",".join(map(str, fetch_jars(SPARK_KAFKA_CONNECTOR)))}
    except JavaArtifactsUnavailable:
        return {}


ORACLE_VARIABLE = "SILTSTONE_TEST_ORACLE"
"""Set to anything: the tests of the connector run on Apache Kafka instead, to see that they are right."""


@pytest.fixture(scope="session")
def kafka_address() -> Iterator[str]:
    """The broker that the connector is tried on: ``bootstrap.servers``."""
    if os.environ.get(ORACLE_VARIABLE):
        with or_skip(running_apache_kafka) as oracle:
            yield oracle.bootstrap_servers
        return
    with Broker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A master and two workers; each test leaves both workers alive."""
    with running_spark_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def foreign_spark() -> Iterator[ForeignSpark]:
    """An older Spark with Delta and Iceberg, in a process of its own."""
    with or_skip(running_foreign_spark) as foreign:
        yield foreign


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run side by side (``-n 2``), all that starts a JVM stays in one process: the shared Spark is started once, and
    no two compete for the cores. It goes first, so that the quick tests fill the rest and none of it is left over. At
    night, what uses no shared Spark is in a process of its own: both together would be the longest part of the night.
    """
    for item in items:
        if item.get_closest_marker("spark"):
            is_apart = item.get_closest_marker("nightly") and SHARED_FIXTURES.isdisjoint(
                getattr(item, "fixturenames", ())
            )
            item.add_marker(pytest.mark.xdist_group("spark-at-night" if is_apart else "spark"))
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)
