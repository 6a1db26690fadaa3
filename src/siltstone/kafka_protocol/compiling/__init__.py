"""From the description of a message to the functions that read and write one version of it.

``layout`` (what stands on the wire) → ``decoder_source``, ``encoder_source`` (Python text) → ``compiled`` (functions).
"""
