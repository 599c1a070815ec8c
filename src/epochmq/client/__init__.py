"""L4: the typed client: pure decisions in `core`, asyncio shells in `aio`, a facade in `sync`."""
