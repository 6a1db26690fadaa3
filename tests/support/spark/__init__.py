"""Spark clusters and tasks for tests; executors import the tasks from here."""
