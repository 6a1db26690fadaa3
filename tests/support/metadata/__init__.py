"""Metadata for tests: images, records, logs that fail."""
