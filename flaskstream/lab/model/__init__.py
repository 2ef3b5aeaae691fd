"""The embedded model: an HTTP server that answers as OpenAI and Anthropic do, and misbehaves on demand.

Where a change goes:

    script       what it can be told, and the checks of that
    words        what it says: the words of its answers, and the calls of tools
    dialects     the JSON of each API, one entry and one file for each
    answer       from the dialect's events to the writes on the wire: when, and how coded, cut and framed
    server       requests and connections
    peer         one connection: waits, writes, and the going of the other side
    log          what was asked, and what became of it
    command      the process: signals, the line that it prints, its arguments
"""
