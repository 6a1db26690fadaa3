"""The kinds of maintenance there are: ``table`` (all of them, in the order that frees space first), ``settings``, the
two that are older than the pipeline (``stream_set_objects``, ``sweeping``), and ``overview`` (what would be done now).
"""
