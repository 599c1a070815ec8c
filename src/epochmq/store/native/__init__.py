"""The native code of the append: optional, C behind ctypes, plain Python is the reference."""
