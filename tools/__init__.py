"""Programs for those who work on Mainstay: its site, and pages that are made from the code."""
