"""`epochmq pipeline`: the Spark jobs over topics, tables and replicas."""
