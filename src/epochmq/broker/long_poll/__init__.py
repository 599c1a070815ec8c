"""Pulls that found nothing and wait for a message or for their time to run out."""
