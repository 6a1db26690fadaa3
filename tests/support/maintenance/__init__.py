"""Stores to maintain, kinds and drivers that do what a test says."""
