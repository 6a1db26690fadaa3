"""Maintenance as a service: each kind runs on its schedule until the service is stopped.

``service`` (lanes side by side, each a thread in which some kinds take turns), ``statistics`` (counts of what the
service has done). When a kind is due is decided in ``pipeline.schedule``.
"""
