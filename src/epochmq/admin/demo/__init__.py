"""The main job, shown: a real data set through real processes, one of them killed; a verdict."""
