"""What all printers share: the terminal and the time axis."""
