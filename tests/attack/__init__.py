"""Attacks and mishaps that the project must withstand: bounded in time and traffic, loopback only.

What the attacked server must keep: other clients are served, acknowledged messages stay, and no
turn of its event loop is slow (`server.Server.check_turns`).
"""
