"""The inner loops of key compaction over arrays: ``port`` (what they do), ``columns`` (how the arrays are laid out),
``plain`` (with numpy), ``compiled`` and ``machine_code`` (with numba), ``choosing`` (which of the two this installation
uses).
"""
