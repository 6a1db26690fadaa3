"""The decisions: the rules of the metadata, as pure functions (image, command, now_ms) → records and result, or
refusal.

Reading order: ``fences`` (``Decision``, and the checks of node epoch, stream owner and job), then one file for each
area (``nodes``, ``membership``, ``streams``, ``leaders``, ``placement``, ``moves``, ``topics``, ``uploads``,
``compaction`` with ``coverage``, ``key_compaction``, ``retention``, ``objects``, ``jobs``, ``keys``; ``new_objects`` is
shared by the commits), then ``table`` with ``decide``, the function that the client calls. A refused command gives no
records; a command whose effect exists already succeeds with no records.
"""
