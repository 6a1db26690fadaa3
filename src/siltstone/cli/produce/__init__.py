"""``siltstone produce``: sends lines of a file or of stdin to a topic.

``reading`` splits the input into lines, ``lines`` parses a line into a record, ``command`` hands the records to a
producer, ``progress`` shows the progress bar.
"""
