"""Campaigns, shrinking, ablations and reports."""
