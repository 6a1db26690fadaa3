"""The errors of streaming queries: each cause for which a query is refused or fails has a class."""

from siltstone.model.errors import InvalidRequest

CHOICES = "begin with a new checkpoint, or set failOnDataLoss=false to continue without it"


class TopicGone(InvalidRequest):
    """A topic that the query has read from is no longer among the topics that it subscribes to."""

    def __init__(self, topic: str, topic_id: str, *, is_deleted: bool = True) -> None:
        what = "was deleted" if is_deleted else "is not subscribed to any more"
        super().__init__(
            f"topic {topic} {what}, and the query has read from it (topic id {topic_id}): {CHOICES}"
        )
        self.topic, self.topic_id = topic, topic_id


class TopicMadeAnew(InvalidRequest):
    """A topic was deleted, and another one of the same name was made: the query's offsets are those of the old one."""

    def __init__(self, topic: str, topic_id: str, new_topic_id: str) -> None:
        super().__init__(
            f"topic {topic} was deleted and created again: the query has read topic id {topic_id}, and now it is"
            f" {new_topic_id}. Begin with a new checkpoint, or set failOnDataLoss=false to read the new topic from its"
            " beginning"
        )
        self.topic, self.topic_id, self.new_topic_id = topic, topic_id, new_topic_id


class StoreIsAnother(InvalidRequest):
    """The checkpoint of a query belongs to another store."""

    def __init__(self, store_id: str, wanted: str) -> None:
        super().__init__(
            f"the checkpoint of this query belongs to store {wanted}, and option store names store {store_id}: name the"
            " store of the checkpoint, or begin with a new checkpoint"
        )
        self.store_id, self.wanted = store_id, wanted


class PositionUnknown(InvalidRequest):
    """The offsets in a checkpoint are not those of this data source, or of a later version of it."""
