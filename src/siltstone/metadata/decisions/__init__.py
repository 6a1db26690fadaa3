"""The rules: what a command makes of an image. Pure: (image, command, now_ms) → records and result, or a refusal.

Reading order: ``decision`` (what comes out), ``fences`` (who may write), then one file for each area, and ``table``
with ``decide``, which everybody calls. A refused command leaves no record at all; a command whose effect stands
already is a success with no records.
"""
