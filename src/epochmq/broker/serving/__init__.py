"""A broker's role and rights, its position in the group, and the acknowledgement of sends."""
