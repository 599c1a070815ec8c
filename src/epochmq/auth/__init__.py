"""Users, policies, signatures: who may do what. RocketMQ's ACL 2.0 (RIP-68)."""
