"""Why connections end: what is counted, and what the log says."""

from enum import StrEnum


class CloseReason(StrEnum):
    PEER = "peer"
    """The client closed it, as clients do."""
    LOST = "lost"
    """It broke."""
    IDLE = "idle"
    MALFORMED = "malformed"
    """What came is no frame: too large, negative, HTTP, TLS."""
    SLOW_REQUEST = "slow-request"
    """A frame that was begun was not whole in time."""
    SLOW_READER = "slow-reader"
    """Answers were not taken in time."""
    UNREAD_ANSWERS = "unread-answers"
    """It left more answers unread than anybody, when all together were too many."""
    REFUSED = "refused"
    """The broker had no other answer to a request."""
    FAILURE = "failure"
    """A bug: an exception that nobody expected."""
    TOO_MANY = "too-many"
    TOO_MANY_OF_HOST = "too-many-of-host"
    SHUTDOWN = "shutdown"
