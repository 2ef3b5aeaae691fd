backend flaskstream {
    .host = "@HOST@";                             # the app, or what is next on the way to it
    .port = "@PORT@";                             # and where it listens
    .connect_timeout = 5s;                        # an app that does not listen is told at once
    .first_byte_timeout = @TIMEOUT@s;             # the kit commits to its answer after 5 s
    .between_bytes_timeout = @TIMEOUT@s;          # the heartbeats (every 15 s) keep it alive, and show that a client has gone
}

sub vcl_recv {
    if (req.url ~ "@MATCH@") {
        unset req.http.Accept-Encoding;           # nobody compresses: what a compressor holds is late
        set req.backend_hint = flaskstream;       # with the patience that it has
        return (pass);                            # nothing is kept: a stream would be replayed to the next client
    }
}

sub vcl_backend_response {
    if (bereq.url ~ "@MATCH@") {
        return (deliver);                         # as it comes; what stands below (do_gzip, do_stream) is for the others
    }
}
