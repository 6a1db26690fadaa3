"""What all tasks share: ``task`` (what a task is, how it fails), ``runner`` (the port to what runs tasks, and the
runner of this process), ``source_bytes`` (reading source objects), ``throttle`` (copying at a limited rate).
"""
