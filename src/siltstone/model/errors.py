"""Every error the store raises on purpose, classed by what the caller does next.

====================  =============================================================================
class                 the caller
====================  =============================================================================
Unavailable           tries again later, with backoff; nothing is known to be wrong with the request
Stale                 refreshes its view (metadata image, listing) and decides again
Fenced                stops: a node or job with a higher epoch has taken over
InvalidRequest        corrects the request
CorruptData           stops and reports it to an operator; the bytes differ from what was written
====================  =============================================================================

Each package defines its causes as subclasses that carry the ids concerned. A failed assertion is a bug and none of
these. ``broker`` maps the classes to Kafka's error codes.
"""

from collections.abc import Iterable
from difflib import get_close_matches

SUGGESTIONS_MAX = 3


class SiltstoneError(Exception):
    """The root of the store's errors. The text is one line that says what happened and what to do."""


class Unavailable(SiltstoneError):
    """The request failed for now; the caller tries again later."""


class Stale(SiltstoneError):
    """The request rests on an outdated view; the caller refreshes it and decides again."""


class Fenced(SiltstoneError):
    """A higher epoch exists; the caller stops."""


class InvalidRequest(SiltstoneError):
    """The request cannot be carried out as it is."""


class CorruptData(SiltstoneError):
    """Bytes that were read are damaged, truncated or of another format."""


def did_you_mean(
    name: str, known: Iterable[str], otherwise: str, *, suggestions_max: int = SUGGESTIONS_MAX
) -> str:
    """Returns the end of an error's text: the known names that are most similar to ``name``, or else ``otherwise``."""
    near = get_close_matches(name, list(known), n=suggestions_max)
    return f"did you mean {' or '.join(near)}?" if near else otherwise
