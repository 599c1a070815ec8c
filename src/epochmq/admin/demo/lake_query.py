"""`python -m epochmq.admin.demo.lake_query TABLE FILE`: SQL over the archive, as JSON."""

import sys
from pathlib import Path
from typing import Any

import msgspec

from epochmq.admin.demo.delays import Delay
from epochmq.admin.demo.lake import MASTER, Facts
from epochmq.spark.jobs.framework import spark_session
from epochmq.spark.jobs.tables.opening import data_frame, open_table

COUNTS = """
SELECT sum(n) AS rows, sum(places) AS places, sum(last - first + 1 - places) AS gaps FROM (
  SELECT count(*) AS n, count(DISTINCT queueOffset) AS places,
         min(queueOffset) AS first, max(queueOffset) AS last
  FROM flights GROUP BY brokerName, queueId)
"""
DELAYS = """
SELECT carrier, hour, count(*) AS flights, count(dep_delay) AS departed,
       coalesce(sum(dep_delay), 0) AS minutes
FROM (SELECT DISTINCT keys, carrier, hour, dep_delay FROM flights)
GROUP BY carrier, hour ORDER BY carrier, hour
"""


def facts_of(spark: Any, table: str) -> Facts:
    """What is in the table, and the report that the demo is about."""
    data_frame(spark, open_table(table)).createOrReplaceTempView("flights")
    (counts,) = spark.sql(COUNTS).collect()
    delays = [
        Delay(row.carrier, row.hour, row.flights, row.departed, row.minutes)
        for row in spark.sql(DELAYS).collect()
    ]
    flights = sum(delay.flights for delay in delays)
    return Facts(counts.rows or 0, counts.places or 0, counts.gaps or 0, flights, delays)


if __name__ == "__main__":
    with spark_session("epochmq demo", MASTER) as session:
        Path(sys.argv[2]).write_bytes(msgspec.json.encode(facts_of(session, sys.argv[1])))
