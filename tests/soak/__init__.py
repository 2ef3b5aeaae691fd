"""A soak: minutes of random trouble, after which nothing may be left and nothing may have looked whole that was not.

`make soak`, or `python -m soak` in `tests/`. `plays` is what upstreams do, `clients` what clients do, `storm` what
happens to the workers; `judge` says of each stream whether it may have ended so, `quiet` what is left at the end.
"""
