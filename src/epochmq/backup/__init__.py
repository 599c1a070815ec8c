"""Backups of broker groups: copies of log and tables in a directory or an object store."""
