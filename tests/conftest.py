"""Puts ``tests`` on the path, so that shared builders are imported as ``from support.x import y``."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent))

# No deadline: the machines that run this are shared, and a slow example is no fault of the code.
settings.register_profile("siltstone", deadline=None)
settings.load_profile("siltstone")
