"""The only path by which a broker writes messages itself."""
