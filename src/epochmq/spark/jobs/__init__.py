"""The jobs of the pipeline, each a function that returns a `report.Report`, and a command."""
