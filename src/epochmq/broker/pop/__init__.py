"""POP consumption: check points, acknowledgements, receipt handles, ordered POP and revive."""
