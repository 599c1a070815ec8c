"""The controller: keeps each broker group's sync-state set and elects its masters (RIP-44)."""
