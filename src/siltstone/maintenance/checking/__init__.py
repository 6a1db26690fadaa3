"""The check (fsck): does everything the metadata says hold, and what lies in the buckets that nobody names?

``findings`` (what may be wrong), ``image_check`` (pure: coverage), ``object_check`` (bytes against the image),
``bucket_check`` (what nobody names), ``listing`` (whether to believe a listing), ``check`` (all of it);
``advice`` (what to do about each kind of finding), ``repair_plan`` (what can be repaired: pure), ``repairing``.
"""
