"""Floor 6: backups of a store, made while brokers run, and stores that are restored from them at a new place.

A *backup* is a folder with a copy of the metadata log, and on request a bucket with copies of the objects. It holds
every version that the log held, so a store can be restored at a *point*: the newest version, or an earlier one whose
objects are still kept. A *restored store* is another store than the original: it has an id and a bucket of its own, so
neither can write to what the other has.

Reading order: ``manifest`` (what a backup says of itself), ``backing_up``, ``object_copying``, ``restored_image`` (what
the metadata of a restored store is, and what is lost; pure), ``restoring``.
"""
