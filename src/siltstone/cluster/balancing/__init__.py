"""Balancing: which partitions to move so that nodes carry about the same load. In reading order: ``goals`` (what a load
is, and when it is in its band), ``planning`` (the plan, or why there is none), ``measuring`` (what a node tells of its
partitions). The rules are those of AutoMQ's balancer; a number that differs says so.
"""
