"""L1: the nouns of the house and their bytes; pure values without clock, disk or network."""
