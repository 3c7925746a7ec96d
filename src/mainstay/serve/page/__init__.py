"""The files of the page, which are served as they are."""
