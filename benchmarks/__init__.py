"""Benchmarks: ``make bench``. Every figure is a ratio of two things done side by side in one run, because the
machines are noisy; absolute numbers stand beside it for orientation only."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # as tests do: from support.x import y
