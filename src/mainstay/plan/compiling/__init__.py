"""From the Python of an author's function to a kernel over columns (see ``runtime.compiled``).

The body is read as its author wrote it. Each expression gets a type; what the types leave open is
checked while the kernel runs, and traps. What has no meaning in columns is refused with its line.
"""
