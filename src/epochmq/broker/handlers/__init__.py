"""One file a family of requests; a handler is `(node, request, session, now) -> Reply | Held`."""
