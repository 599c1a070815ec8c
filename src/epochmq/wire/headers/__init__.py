"""The custom header of every code, by family; a header travels as `extFields`."""
