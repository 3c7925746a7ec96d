"""Compiled functions: an author's function of rows as a loop over columns, run as machine code.

What is compiled gives what the function itself gives, or stops: a number beyond 64 bits, a division
by zero, None where a number is needed. Then the function itself is called for that row, with the
state as it was before it, so that values and errors are always its own.
"""
