"""The optional native code of the store: C called by ctypes; plain Python is the reference."""
