"""The Spark jobs of the pipeline: each is a function that returns a `JobReport`, and a command."""
