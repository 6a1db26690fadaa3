"""What registered groups have not read yet: their progress for maintenance, the backlog quota, the time to live.

Begin with ``registrations`` (which groups count, and where) and ``positions`` (how far they are). ``progress_mirror``
writes that into the metadata; ``measuring`` and ``quota_rules``, pure, say what is too much, ``quota_check`` looks, and
``verdicts`` is what Produce asks; ``time_to_live`` moves groups past what is too old. ``backlog`` runs it all.
"""
