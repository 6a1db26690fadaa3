"""Loops over bytes, batches and records, twice: ``plain`` is Python to read and to compare with, ``compiled`` is the
same through numba (``machine_code``), hundreds of times faster. ``choosing`` takes what this installation has.

Both have the functions of ``port.Kernels`` and raise the same errors; ``columns`` names what is in the arrays.
"""
