"""The tables that archives write: Delta, Iceberg, and plain Parquet with a manifest."""
