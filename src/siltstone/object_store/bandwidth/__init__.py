"""Limits the bandwidth between a process and its buckets, by grades, with one limit for each direction.

*Grade*: what a request is for, and so its priority. *Slice*: the bytes that are granted at a time, so that a large
request of a low grade does not delay a small one of a high grade. *Hold*: to let a request wait for its slices.
Requests of the highest grade are counted and never held.

``turns`` (grades and directions, and which request gets the next slice; pure), ``limiter`` (threads and coroutines
that wait for slices), ``passage`` (how the requests of a store are counted or held, at once or piece by piece).
"""
