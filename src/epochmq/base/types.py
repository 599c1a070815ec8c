"""The type of byte buffers."""

Buffer = bytes | bytearray | memoryview
"""What may be written: anything that holds bytes."""
