"""Erasure: all records of some keys leave a topic, wherever they are. Offsets do not change.

``offline.erasures`` has the requests, which are kept in the metadata. ``maintenance.erasing`` makes and follows them.
``planning`` (the objects that may hold records of the keys; pure), ``task_input`` and ``task`` (looks at one object, or
writes it again without the records), ``carrying_out`` (what the engine of ``carrying`` has to know of one object),
``kind`` (looks, rewrites, and says when nothing is left), ``noting`` (what has become of the objects), ``leftovers``
(objects that are not in use), ``report`` (what a person gets).
"""
