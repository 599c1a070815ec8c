"""What a controller answers, one file a request; `table.py` finds the handler of a code."""
