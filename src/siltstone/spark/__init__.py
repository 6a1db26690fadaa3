"""Floor 6: Spark. Finds a Java, starts Spark, and runs maintenance tasks on it.

Only this package uses pyspark, and it imports pyspark only when Spark is started. ``spark_runner`` is the Runner that
maintenance calls; ``choice`` picks a runner for calls from Python; ``session`` starts Spark, with the Java that
``java`` finds, after ``master`` has checked that a standalone master answers; ``task_attempt`` is what runs in the
executors. Read next: ``spark_runner``.
"""
