"""What Fetch does between request and response.

``wanted`` is one partition of a request and what was found in it; ``gathering`` looks once at all partitions of a
request; ``long_poll`` looks again until there is enough or the time is up; ``sessions`` remembers, for each client,
which partitions it fetches and what it was sent (KIP-227).
"""
