"""The sweep: it deletes destroyed objects after their grace period, gives up prepared objects after their time limit
and aborts orphaned multipart uploads. ``kind`` is the kind of maintenance, ``sweeping`` does the work.
"""
