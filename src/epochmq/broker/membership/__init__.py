"""A broker's place in its group in controller mode: identity, role, epoch, lease (RIP-44)."""
