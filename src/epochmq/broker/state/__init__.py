"""Topics, groups, statistics, and how they are saved."""
