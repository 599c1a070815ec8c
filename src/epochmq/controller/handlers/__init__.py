"""Request handlers of a controller; `controller_request_table.py` lists them by request code."""
