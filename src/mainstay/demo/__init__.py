"""The demonstration: ``python -m mainstay.demo`` runs a job, kills a worker, and checks the books.

``orders`` is the input, ``totals`` the job, ``verdict`` the comparison with a plain loop,
``show`` what appears in the terminal.
"""
