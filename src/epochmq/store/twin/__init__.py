"""The compiled twin of the append: optional, C behind ctypes, plain Python is the reference."""
