"""What a name server answers, by family; `table.py` finds the handler of a code."""
