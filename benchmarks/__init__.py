"""Benchmarks: ``make bench``. Every figure is a ratio of two things done side by side in one run, because the
machines are noisy; absolute numbers stand beside it for orientation only."""
