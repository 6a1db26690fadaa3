"""Compaction for people: ``runners`` (who does the work), ``tables`` (plan and report)."""
