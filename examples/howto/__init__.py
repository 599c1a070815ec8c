"""One small program for each task of the how-to page."""
