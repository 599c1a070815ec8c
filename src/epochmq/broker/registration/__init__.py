"""Telling every name server who this broker is and which topics it has."""
