"""Bandwidth: what goes to and from the buckets of a process, in grades, under one limit for each direction.

*Grade*: what bytes are for, and so who goes first. *Slice*: the bytes that are given at a time, so that a large request
of a low grade does not stand in the way of a small one of a high grade. *Hold*: to let a request wait for its slices.
Requests of the highest grade are counted and never held.

``grades`` (grades and directions), ``turns`` (who gets the next slice; pure), ``limiter`` (threads and coroutines that
wait for slices), ``passage`` (how the requests of a store are counted or held), ``pieces`` (requests that wait while
they are made),
``passing_store`` (a store whose requests pass so).
"""
