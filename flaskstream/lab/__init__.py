"""What the comparison needs and production never imports: a model server, faults, measurements."""
