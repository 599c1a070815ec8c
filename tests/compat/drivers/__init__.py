"""Programs that use third parties' unmodified clients; see README.md for what they speak."""
