"""The check of a store (fsck): whether the metadata contradict themselves, whether every object holds what the
metadata say, and which objects in the buckets no metadata name.

``findings`` (what may be wrong), ``image_check`` (the metadata alone; pure), ``object_check`` (an object against the
image), ``bucket_check`` (the listing of a bucket against the image), ``check`` (all of these); ``repair_plan`` (what
can be repaired, and advice about the rest; pure), ``repairing`` (carries the plan out).
"""
