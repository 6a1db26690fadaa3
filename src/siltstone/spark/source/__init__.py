"""``spark.read.format("siltstone")``: topics as DataFrames, read by Spark's tasks straight from the buckets.

The names of options and columns are those of Spark's connector for Kafka, so a job moves over by another ``format``.
``options`` turns texts into a request, ``data_source`` has the classes that Spark calls; everything else is in
``scanning``, which is tested without a JVM. Spark finds the data source by the package
``pyspark_siltstone``.
"""
