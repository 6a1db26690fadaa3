"""Chooses the kernels: the compiled ones where numba is installed."""

from functools import lru_cache
from importlib.util import find_spec

from siltstone.maintenance.key_compaction.kernels import plain
from siltstone.maintenance.key_compaction.kernels.port import Kernels


@lru_cache(maxsize=1)
def best_kernels() -> Kernels:
    """The fastest kernels of this installation. numba is imported in this function, which only tasks call, because the
    import takes half a second and 60 MB."""
    if find_spec("numba") is None:
        return plain
    from siltstone.maintenance.key_compaction.kernels import compiled  # noqa: PLC0415

    return compiled
