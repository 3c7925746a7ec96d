"""Workers: the tasks of one process, their channels, and their part of every epoch."""
