"""The modules that all tasks share: ``runner`` (what a task is, how it fails, what runs it), ``source_bytes`` (reading
source objects), ``pacing`` (copying at a limited rate).
"""
