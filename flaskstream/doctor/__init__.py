"""Measure a hop, judge it, say so: three things that are kept apart."""
