"""The context of one broker: its tables, services and settings, which handlers work on."""
