"""The inner loops over the records of many batches, as arrays, called *kernels*: ``port`` (what each does), ``columns``
(the layout of the arrays), ``plain`` (in Python), ``compiled`` and ``machine_code`` (with numba), ``choosing`` (which
of the two this installation uses).
"""
