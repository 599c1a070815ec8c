"""The options of a broker and of a container."""
