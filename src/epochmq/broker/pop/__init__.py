"""POP: the broker hands messages out one by one and takes back what nobody acknowledges."""
