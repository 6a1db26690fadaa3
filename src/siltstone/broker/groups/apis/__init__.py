"""Kafka's requests about groups: decoded message → what a group is asked → response message, one file per API.

Each handler is ``handle_…(groups, context, request)``. What depends on a version stands here and nowhere below.
"""
