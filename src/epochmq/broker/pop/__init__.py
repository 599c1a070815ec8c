"""POP: messages handed out for a time, their acknowledgements, and their revival."""
