"""Files: as a source, and as sinks whose readers see committed files only."""
