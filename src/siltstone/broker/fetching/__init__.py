"""Does the work of Fetch between request and response.

``wanted`` is one partition of a request and what was found in it; ``gathering`` reads all partitions of a request once;
``long_poll`` repeats that until there are enough bytes or the time is up; ``sessions`` remembers, for each client,
which partitions it fetches and which answers it got (KIP-227).
"""
