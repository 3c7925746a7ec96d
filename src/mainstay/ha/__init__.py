"""High availability: which of several processes leads a job."""
