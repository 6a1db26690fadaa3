"""Benchmarks: ``make bench``. Every figure is a ratio of two things done side by side in one run, because the
machines are noisy; absolute numbers stand beside it for orientation only."""

import os
import sys
from pathlib import Path

# Siltstone runs compiled, as pip installs it: no process but the first compiles it, whatever the environment says.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

sys.path.append(str(Path(__file__).parents[1] / "tests"))  # as tests do: from support.x import y
