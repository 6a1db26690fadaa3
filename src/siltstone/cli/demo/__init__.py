"""``siltstone demo``: produces real data to a broker, maintains the store, and verifies every record.

``command`` runs the steps in order. ``place`` makes the folder of the store, ``flights`` reads the data, ``thresholds``
writes settings for little data. ``kafka_client`` produces the flights with an ordinary Kafka client. ``figures`` counts
objects and the requests that reading costs, before and after the compaction of stream set objects, which runs as
``siltstone maintain run --kind sso-compaction`` while ``trickle`` continues to produce. ``table`` appends the flights
to an Iceberg table meanwhile, and asks Spark SQL and DuckDB about it at the end. ``kafka_client`` consumes all records,
``verifying`` compares them with their source. ``maintaining`` runs key compaction, retention and garbage collection.
``report`` draws the tables and charts.

``cluster`` is another tour, ``siltstone demo --cluster``. ``interrupted``
is about Ctrl-C. ``story`` prints the steps; ``stage`` is the struct of all
that a step of the first one needs.
"""
