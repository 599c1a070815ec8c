"""The broker process, its connections, and a container of several brokers."""
