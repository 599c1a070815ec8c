"""Delayed messages of the 18 levels: kept in SCHEDULE_TOPIC_XXXX, delivered when due."""
