"""The check of a store (fsck): whether the metadata contradicts itself, whether every object holds what the
metadata says, and which objects in the buckets the metadata does not name.

``findings`` (what may be wrong), ``image_check`` (the metadata alone; pure), ``object_check`` (an object against the
image), ``bucket_check`` (the listing of a bucket against the image), ``check`` (all of these); ``repair_plan`` (what
can be repaired, and advice about the rest; pure), ``repairing`` (carries the plan out).
"""
