"""Chooses the kernels: the compiled ones where numba is installed, which can be compiled before they are needed."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec

from siltstone.record_columns.kernels import plain
from siltstone.record_columns.kernels.port import Kernels

log = logging.getLogger(__name__)


@lru_cache(maxsize=1)
def best_kernels() -> Kernels:
    """Returns the fastest kernels of this installation. numba is imported in this function, which only tasks call,
    because the import takes half a second and 60 MB."""
    if find_spec("numba") is None:
        log.warning(
            "numba is not installed: records are decoded in Python, some hundred times slower; install it:"
            " pip install 'siltstone[arrow]'"
        )
        return plain
    from siltstone.record_columns.kernels import compiled  # noqa: PLC0415

    return compiled


COMPILE = "import os; os.nice(10); from siltstone.record_columns.kernels import compiled"


@contextmanager
def compiling_ahead() -> Iterator[subprocess.Popen[bytes] | None]:
    """Compiles the kernels in another process while the block runs, or until it ends. They are then in numba's cache,
    where the tasks of this machine find them: the first use after an installation takes no longer than any other, but
    for some ten seconds of a processor, at low priority, that are spent meanwhile. Yields the process, or None
    without numba.

    Nothing depends on it: if it fails, or is killed at the end of the block, the tasks compile what they lack."""
    if find_spec("numba") is None:
        yield None
        return
    nothing = subprocess.DEVNULL
    # In a session of its own, Ctrl-C at the terminal does not reach it, and it prints no traceback.
    process = subprocess.Popen(  # noqa: S603  our own module
        [sys.executable, "-c", COMPILE], stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
