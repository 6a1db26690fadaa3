"""Floor 3: time, randomness, tasks, threads and files. A simulation replaces the first, the second and the threads.

==============  ================================================================================================
``clock``       the time of day, durations, sleeping and timers
``randomness``  random numbers, seeded where a test has to repeat them
``tasks``       background tasks whose owner is notified of a failure
``blocking``    calls that block (disk, bucket, SQLite), made in threads
``turns``       long loops that let other tasks of the event loop run in between
``log_limit``   how often a line about one subject is logged
``files``       writes that survive a power failure, also past the page cache; the free space of disks
==============  ================================================================================================

Code above this floor takes a ``Clock`` and a ``Random`` as arguments and calls neither ``time`` nor ``random`` itself.
"""
