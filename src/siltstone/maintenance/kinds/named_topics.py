"""The topics that somebody named."""

from collections.abc import Iterable
from difflib import get_close_matches

from siltstone.metadata.image import ImageView
from siltstone.model.errors import InvalidRequest

SUGGESTIONS_MAX = 3


class TopicNotThere(InvalidRequest):
    """The store has no topic of that name."""


def topics_named(image: ImageView, names: Iterable[str]) -> frozenset[str]:
    """A text is one name, not one for each of its letters. Raises TopicNotThere."""
    wanted = frozenset([names] if isinstance(names, str) else names)
    for name in sorted(wanted):
        if name not in image.topic_ids:
            near = get_close_matches(name, sorted(image.topic_ids), n=SUGGESTIONS_MAX)
            hint = f"did you mean {' or '.join(near)}?" if near else "siltstone maintain explain shows them"
            raise TopicNotThere(f"there is no topic {name} in this store: {hint}")
    return wanted
