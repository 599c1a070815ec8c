"""The timer wheel and the timer log in RocketMQ's file formats."""
