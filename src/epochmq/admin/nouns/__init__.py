"""Commands about the nouns: topics, groups, messages, clusters."""
