"""`epochmq pipeline`: jobs on Spark over topics, tables and replicas."""
