"""A broker that comes back takes over what its group did meanwhile, before anybody sees it."""
