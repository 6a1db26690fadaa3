"""Keeps librdkafka from writing to stderr: a broker that goes away is part of the test."""

QUIET: dict[str, str | int | float | bool | None] = {"log_level": 0}
