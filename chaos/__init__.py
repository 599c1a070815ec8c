"""Real processes under real faults, judged by what their clients saw."""
