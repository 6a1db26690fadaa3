"""What Spark's pages say of our work, read from the store that the pages are made from: scans, jobs, batches of sinks,
exports to tables. And JSON from a column of structs into a topic and back."""

from collections.abc import Iterator
from typing import Any

import pytest

import siltstone

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

COUNT = 30


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[siltstone.Broker]:
    with siltstone.Broker(tmp_path_factory.mktemp("shown") / "store") as running:
        running.create_topic("flights", config={"siltstone.table.format": "parquet"})
        yield running


def descriptions(spark: Any) -> list[str]:
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    said = (jobs.apply(at).description() for at in range(jobs.size()))
    return [each.get() for each in said if each.isDefined()]


def scan_nodes(spark: Any) -> set[str]:
    """The scans in the plans of all queries of the session, by the names that the page SQL / DataFrame shows."""
    store = spark._jsparkSession.sharedState().statusStore()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # the store is filled in the background
    queries = store.executionsList()
    found = set()
    for at in range(queries.size()):
        nodes = store.planGraph(queries.apply(at).executionId()).allNodes()
        found |= {nodes.apply(each).name() for each in range(nodes.size())}
    return {name for name in found if name.startswith("BatchScan")}


@pytest.mark.nightly(tried="jobs")
def test_spark_shows_scans_and_jobs_by_what_they_work_on_and_json_comes_back(
    spark: Any, broker: siltstone.Broker
) -> None:
    rows = spark.range(COUNT).selectExpr(
        "struct(id, concat('g', id) as gate, timestamp_millis(id) as at, id % 2 = 0 as late) as value"
    )
    siltstone.spark.write_batch(rows, 3, sink="loads", topic="flights", store=broker.folder, value="json")
    broker.flush()
    flights = siltstone.spark.read("flights", store=broker.folder, spark=spark, value="json")
    with siltstone.open_store(broker.folder) as store:
        size_bytes = sum(each.size_bytes for each in store.metadata.image.objects.values())
    assert size_bytes < 10_240
    name = flights.siltstone_name
    assert name.startswith("scan flights, 1 object, ") and name.endswith((" B", " KiB"))
    html = flights._repr_html_()
    assert name in html and "struct&lt;id:bigint,gate:string" in html and ">offset<" in html
    with siltstone.spark.named(flights):
        found = flights.select("value.id", "value.gate", "value.late").collect()
    assert sorted(map(tuple, found)) == [(number, f"g{number}", number % 2 == 0) for number in range(COUNT)]
    assert flights.join(flights.select("offset"), "offset").count() == COUNT
    with siltstone.open_store(broker.folder) as store:
        report = siltstone.maintenance.plan(store, kinds=["table-export"]).run(spark)
        assert report.is_well and report.runs[0].done, report
    assert f"BatchScan siltstone: {name}" in scan_nodes(spark)
    said = descriptions(spark)
    for wanted in (
        f"siltstone: {name}",
        "siltstone: write batch 3 of sink loads into flights",
        f"siltstone: table-export flights, job {report.runs[0].job_id}",
    ):
        assert wanted in said, said
    assert said.count(f"siltstone: {name}") <= 2, "jobs after the block have no name of ours"


@pytest.mark.nightly(tried="jobs")
def test_a_json_number_that_does_not_exist_fails_the_write(spark: Any, broker: siltstone.Broker) -> None:
    rows = spark.sql("select struct(double('nan') as x) as value")
    writer = rows.write.format("siltstone").options(store=str(broker.folder), topic="flights", value="json")
    with pytest.raises(Exception, match="a row for flights cannot be written: its value has NaN"):
        writer.mode("append").save()
