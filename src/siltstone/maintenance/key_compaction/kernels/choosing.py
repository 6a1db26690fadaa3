"""Which kernels this installation has."""

from functools import lru_cache
from importlib.util import find_spec

from siltstone.maintenance.key_compaction.kernels import plain
from siltstone.maintenance.key_compaction.kernels.port import Kernels


@lru_cache(maxsize=1)
def best_kernels() -> Kernels:
    """Compiled ones where numba is installed. It is imported here, by tasks alone: it takes half a second and 60 MB."""
    if find_spec("numba") is None:
        return plain
    from siltstone.maintenance.key_compaction.kernels import compiled  # noqa: PLC0415

    return compiled
