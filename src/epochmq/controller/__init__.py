"""The controller: keeps the sync-state set of each broker group and elects its master (RIP-44)."""
