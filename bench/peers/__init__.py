"""What the kit is measured beside: each is what people write or run in its place, one worker process each."""
