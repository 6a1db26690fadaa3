"""Names the fixtures that one worker of pytest-xdist starts for all tests that use them."""

SHARED_FIXTURES = frozenset({"spark", "spark_cluster", "kafka_address", "foreign_spark"})
"""Fixtures of the whole session that cost ten seconds of processor time and more."""
