"""Records and values in other systems' forms."""
