"""The timer wheel and the timer log in RocketMQ's file formats (facts/store.md 7.2)."""
