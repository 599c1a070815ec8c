"""The one door by which a broker writes messages that no client sent just now."""
