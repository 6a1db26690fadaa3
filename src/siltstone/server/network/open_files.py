"""How many files this process may have open: every connection is one, and shells often allow only 1,024.

The limit is raised as far as the system lets us, which is what the hard limit is for. Where that is not enough, it is
said at the start and not by the first client that is turned away.
"""

import logging
import resource

OTHER_FILES = 512
"""What a node has open besides connections: segments of its log, objects, the metadata, libraries."""

log = logging.getLogger(__name__)


def allow_connections(max_connections: int) -> None:
    wanted = max_connections + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if allowed > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < wanted:
        log.warning(
            "this process may have %d files open, so fewer than network.max_connections (%d) can be served: "
            "raise the limit (ulimit -n %d), or lower the setting",
            allowed, max_connections, wanted,
        )  # fmt: skip
