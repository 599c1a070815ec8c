"""Third-party clients and peers: everything here talks to real processes over loopback.

Nothing in this package imports ``epochmq`` (but for the tests of our own client): what a stranger's
program sees is judged with a stranger's eyes.
"""
