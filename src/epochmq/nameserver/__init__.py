"""The name server: living brokers, routes of topics, and the key-value configuration."""
