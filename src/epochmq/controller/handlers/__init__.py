"""What a controller answers, one file a request; `controller_request_table.py` finds the handler of
a code."""
