"""Floor 6: Spark. Finds a Java, starts Spark, and runs maintenance tasks on it (``spark_runner.py``). The only home of
pyspark, which is imported when Spark is started and not before."""
