"""Compiles the description of a message into functions that decode and encode one version of it.

``layout`` (the fields of one version) → ``decoder_source``, ``encoder_source`` (Python source text, written with
``source``) → ``compiled`` (functions). The functions call ``primitives`` for rare or long steps.
"""
