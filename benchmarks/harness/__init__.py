"""Runs Mainstay and its peers on the same workloads, one at a time, and reports what came out.

``systems`` says who is measured at what, ``environments`` finds an interpreter for each,
``measurement`` runs one of them and watches it from outside, ``schedule`` says in which order,
``summary`` draws medians and ratios, ``tables`` and ``plot`` show them.
"""
