"""Layer L5: metrics of the servers."""
