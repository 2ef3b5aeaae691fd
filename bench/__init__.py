"""What the kit costs and how fast it is, measured on this machine. Nothing here is installed; run it in a checkout."""
