"""The kinds of maintenance there are: ``table`` (all of them, in the order that frees space first), ``settings``, the
two that are older than the pipeline (``stream_set_objects``, ``sweeping``), ``overview`` (what would be done now), and
``named_topics`` (only of these).
"""
