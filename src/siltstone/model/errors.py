"""Every error the store raises on purpose, classed by what the caller does next.

====================  ===========================================================================
class                 the caller
====================  ===========================================================================
Unavailable           tries again later, with backoff; nothing is known to be wrong with the request
Stale                 refreshes what it knows (image, listing) and decides again
Fenced                stops: somebody with a higher epoch has taken over
InvalidRequest        corrects the request
CorruptData           stops and tells a person; the bytes are not what was written
====================  ===========================================================================

Each package defines its own causes as subclasses, carrying the ids concerned. A broken assertion is a bug
and is none of these.
"""


class SiltstoneError(Exception):
    """The root. Its text is one line that says what to do."""


class Unavailable(SiltstoneError):
    """Try again later."""


class Stale(SiltstoneError):
    """Refresh and decide again."""


class Fenced(SiltstoneError):
    """Stop: a higher epoch exists."""


class InvalidRequest(SiltstoneError):
    """The request cannot be carried out as it is."""


class CorruptData(SiltstoneError):
    """Bytes that were read are damaged, truncated or of another format."""
