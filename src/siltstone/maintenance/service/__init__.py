"""Maintenance as a service: each kind on its schedule until somebody stops it.

``lane`` (kinds that take turns in one thread), ``service`` (the lanes, side by side), ``statistics`` (what it has
done). What is due when is ``pipeline/schedule``.
"""
