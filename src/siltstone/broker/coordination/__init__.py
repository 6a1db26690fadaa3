"""What every coordinator has: a life of loading, deciding and loading again, timers, and a log that is written again
when it has grown long.

A *coordinator* keeps the groups or the transactional ids of one partition in memory, and that partition is its log. The
packages ``groups`` and ``transactions`` have the rest, each in the same parts: a table of what is known, ``rules`` that
decide as pure functions, and what is appended to the log.
"""
