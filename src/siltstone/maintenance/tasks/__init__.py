"""What all tasks share: ``runner`` (what a task is, how it fails, what runs it), ``source_bytes`` (reading source
objects), ``throttle`` (copying at a limited rate).
"""
