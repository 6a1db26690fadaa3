"""Topic flights → streaming table late_flights → topic late-flights."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
STORE = spark.conf.get("siltstone.store")


@dp.table
def late_flights() -> DataFrame:
    """Keeps where each row comes from: topic, partition and offset."""
    columns = "value struct<flight: string, delay: int>, partition int, offset long"
    stream = spark.readStream.format("siltstone").schema(columns).option("groupId", "late_flights")
    flights = stream.options(
        store=STORE, subscribe="flights", startingOffsets="earliest", value="json"
    ).load()
    late = flights.where("value.delay > 60")
    return late.selectExpr("value.flight", "value.delay", "partition", "offset")


dp.create_sink("late_topic", "siltstone", {"store": STORE, "topic": "late-flights"})


@dp.append_flow(target="late_topic")
def to_topic() -> DataFrame:
    """Each row once, because the sink remembers which micro-batches it has written."""
    late = spark.readStream.table("late_flights")
    return late.selectExpr("flight AS key", "to_json(struct(flight, delay)) AS value")
