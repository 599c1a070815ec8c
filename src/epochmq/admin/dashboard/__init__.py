"""`epochmq dashboard`: web pages about clusters, for a browser."""
