"""Erasure: all records of some keys leave a topic, wherever they are. Offsets do not change.

``offline.erasures`` has the requests, which are kept in the metadata. ``maintenance.erasing`` makes and follows them.
``planning`` (which objects may hold records of the keys; pure), ``task_input`` and ``task`` (looks at one object,
or writes it again without the records), ``matching`` (which records are of the keys; pure), ``carrying_out`` (what the
engine of ``carrying`` has to know of one object), ``kind`` (looks, rewrites, and says when nothing is left), ``report``
(what a person gets).
"""
