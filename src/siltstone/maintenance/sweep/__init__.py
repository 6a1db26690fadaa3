"""The sweep: deletes destroyed objects after their grace period, gives up prepared objects after their time limit and
aborts uploads that nobody will complete. ``kind`` is the kind of maintenance, ``sweeping`` the work.
"""
