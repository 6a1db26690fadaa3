"""The retention class of every stream, from the image."""

from siltstone.maintenance.planning.retention_class import Classes, RetentionClass, retention_class
from siltstone.maintenance.topic_streams import Role, topic_streams
from siltstone.metadata.image import ImageView


def stream_classes(image: ImageView) -> Classes:
    """Snapshots of a partition are of no class: each new one drops those before it."""
    return {
        stream_id: retention_class(each.config) if each.role is Role.BATCHES else RetentionClass.NONE
        for stream_id, each in topic_streams(image).items()
    }
