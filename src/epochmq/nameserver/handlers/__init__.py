"""What a name server answers, by family; `namesrv_request_table.py` finds the handler of a code."""
