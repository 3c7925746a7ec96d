"""Commands for jobs that run: which there are, and what they are asked to do."""
