"""The adapter for a local folder: an object is a file whose path is its key.

``store`` is the adapter, ``files`` writes durably and translates OSErrors, ``keys`` maps keys to paths and walks them
in order, ``multipart`` holds the uploads.
"""
