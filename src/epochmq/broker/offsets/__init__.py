"""How far each consumer group has come in each queue."""
