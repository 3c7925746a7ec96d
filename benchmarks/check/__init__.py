"""Runs the same workloads at two commits in turn, and says which figures changed beyond the noise.

``trees`` has a working copy for each commit, ``rounds`` runs both in turn, ``figures`` says what is
looked at, ``noise`` what is chance, ``verdict`` what is made of it, ``command`` is
``make bench-check``.
"""
