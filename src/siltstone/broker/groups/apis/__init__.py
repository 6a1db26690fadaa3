"""Kafka's requests about groups: request message → request of ``rules`` → answer → response message.

Each handler is ``handle_…(groups, context, request)``. JoinGroup, SyncGroup, Heartbeat and LeaveGroup are in
``membership``; every other API has a file. Only this package knows the differences between versions of an API.
"""
