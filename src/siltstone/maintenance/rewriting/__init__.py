"""What a task does: read an iteration's blocks, check them, write its stream objects and its part.

``unit`` (what goes in and comes out), ``source_bytes`` (reading), ``checked_blocks``, ``run`` (all of it).
"""
