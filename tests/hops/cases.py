"""What the doctor is tried on: hops that run for real, and what is the matter with each.

What is expected was written down before the doctor was asked, from what each configuration does. Where it said
otherwise the case was looked into: mostly the rules were wrong, and three times the case, whose configuration does
something else than was meant. Where two answers are right, both stand here, with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Mapping, Sequence

from flaskstream.doctor.diagnosis import Hop
from hops.stack import CHAT, NGINX_11, Server, apache, app, caddy, haproxy, lab, lighttpd, nginx, node, waitress

FINE = "streams"
HELD, SIZE, TIME, LATE = "held_to_end", "bursts_by_size", "bursts_by_time", "one_event_late"
BUFFER, FILTER, CODING, CORK = "proxy_buffering", "whole_body_filter", "compression", "kernel_cork"
IN_PROCESS = "joined_body|body_reading_hook"
ANY = "*"
"""Whatever cause is said, or none: the verdict says it all."""


@dataclass(frozen=True)
class Case:
    """Hops, outermost first, and what is the matter.

    Attributes:
        servers: the hops; the last one is the app.
        verdicts: on the endpoint, if there is one, and on each hop; "one|other": both are right.
        cause: the first one of the outermost hop that is at fault; "": there is none. "one|other": both are right.
        why: they are both right.
        silence_seconds: how long a silence is tried.
        note: part of a note that must be there; "": none.
        endpoint: an ordinary one, which is asked through all hops, with the probe beside it; "": the probe alone is.
    """

    servers: tuple[Server, ...]
    verdicts: tuple[str, ...]
    cause: str = ""
    why: str = ""
    silence_seconds: float = 0.0
    note: str = ""
    endpoint: str = ""


def proxied(proxy: Server, verdict: str = FINE, cause: str = "", behind: Server | None = None, **more: object) -> Case:
    """A proxy in front of an app that streams."""
    return Case((proxy, behind or app()), (verdict, FINE), cause, **more)  # type: ignore[arg-type]


def alone(server: Server, verdict: str = FINE, cause: str = "", **more: object) -> Case:
    """An app with nothing in front of it."""
    return Case((server,), (verdict,), cause, **more)  # type: ignore[arg-type]


def chain_of_two_nginx() -> Case:
    """The inner one says the mark again that it has eaten."""
    inner = nginx("add_header X-Accel-Buffering no;")
    return Case((nginx(), inner, app()), (FINE, FINE, FINE))


IGNORED = "proxy_ignore_headers X-Accel-Buffering;"
GZIPPED = "gzip on; gzip_types text/event-stream; gzip_min_length 0;"
CACHED = "proxy_cache_path cache keys_zone=z:1m;"
REPLAYS = (
    "proxy_cache z; proxy_cache_key $uri; proxy_cache_valid 200 1m;"
    " proxy_ignore_headers Cache-Control X-Accel-Buffering;"
)
NO_DELAY = "option http-no-delay"
OF_EVENTS = "AddOutputFilterByType DEFLATE text/event-stream"


def in_apache(*lines: str) -> Server:
    """Apache with these lines about all of it."""
    return apache("<Location />", *lines, "</Location>")


NGINX: Mapping[str, Case] = {
    "nginx stock": proxied(nginx()),  # the probe sends X-Accel-Buffering: no, and nginx obeys
    "nginx ignores the mark": proxied(nginx(IGNORED), SIZE, BUFFER),
    "nginx ignores the mark, buffering off": proxied(nginx(IGNORED + "proxy_buffering off;")),
    "nginx ignores the mark, HTTP/1.1": proxied(
        nginx(IGNORED + NGINX_11),
        f"{FINE}|{LATE}|{SIZE}",
        f"|{BUFFER}",
        why="only events above 4 KB wait, for the next one",
    ),
    "nginx 16k buffers": proxied(nginx(IGNORED + "proxy_buffer_size 16k; proxy_buffers 8 16k;"), SIZE, BUFFER),
    "nginx 1k buffers": proxied(
        nginx(IGNORED + "proxy_buffer_size 1k; proxy_buffers 4 1k; proxy_busy_buffers_size 2k;"), SIZE, BUFFER
    ),
    "nginx 64k buffers": proxied(
        nginx(IGNORED + "proxy_buffer_size 64k; proxy_buffers 8 64k; proxy_busy_buffers_size 64k;"), SIZE, BUFFER
    ),
    "nginx early headers": proxied(nginx(IGNORED + "postpone_output 0;"), SIZE, BUFFER),
    "nginx no temporary file": proxied(nginx(IGNORED + "proxy_max_temp_file_size 0;"), SIZE, BUFFER),
    "nginx no chunks": proxied(nginx(IGNORED + "chunked_transfer_encoding off;"), SIZE, BUFFER),
    "nginx gzip, buffering on": proxied(nginx(IGNORED, http=GZIPPED), SIZE, BUFFER),
    "nginx gzip of events": proxied(nginx("proxy_buffering off;", http=GZIPPED)),
    "nginx gzip, HTTP/1.1, buffering on": proxied(
        nginx(IGNORED + NGINX_11, http=GZIPPED),
        f"{HELD}|{SIZE}",
        f"{CODING}|{BUFFER}",
        why="it holds what is compressed, since it buffers: without either it streams",
    ),
    "nginx gunzip": proxied(nginx("proxy_buffering off; gunzip on;")),
    "nginx sub_filter": proxied(
        nginx('proxy_buffering off; proxy_set_header Accept-Encoding ""; sub_filter aa bb; sub_filter_types *;')
    ),
    "nginx limit_rate": proxied(nginx("proxy_buffering off; limit_rate 100k;")),
    "nginx cache, obeys": proxied(nginx("proxy_cache z; proxy_cache_valid 200 1m;", http=CACHED)),
    "nginx cache, replays": proxied(nginx(REPLAYS, http=CACHED), "replayed", "cache"),
    "nginx cache lock": proxied(nginx(IGNORED + "proxy_cache z; proxy_cache_lock on;", http=CACHED), SIZE, BUFFER),
    "nginx read timeout 1 s": proxied(
        nginx("proxy_read_timeout 1s;"), "cut_by_silence", "idle_timeout", silence_seconds=2
    ),
    "nginx read timeout 5 s": proxied(nginx("proxy_read_timeout 5s;"), silence_seconds=2),
    "nginx 2k buffers, HTTP/1.1": proxied(
        nginx(IGNORED + NGINX_11 + "proxy_buffer_size 2k; proxy_buffers 4 2k; proxy_busy_buffers_size 4k;"),
    ),
    "nginx 8k buffers, gzip offered": proxied(
        nginx(IGNORED + "proxy_buffer_size 8k; proxy_buffers 8 8k;", http=GZIPPED), SIZE, BUFFER
    ),
    "nginx mirror": proxied(
        nginx("mirror /other; mirror_request_body off; proxy_buffering off;", http=""),
    ),
    "nginx limits connections": proxied(
        nginx("limit_conn c 1; proxy_buffering off;", http="limit_conn_zone $binary_remote_addr zone=c:1m;"),
        "serialised",
        "no_free_worker",
    ),
    "nginx add_header": proxied(nginx("add_header X-Accel-Buffering no; add_header Server other always;")),
    "nginx brings the mark itself": chain_of_two_nginx(),
    "nginx send_timeout 1 s": proxied(nginx("send_timeout 1s; keepalive_timeout 1s;"), silence_seconds=2),
    "nginx tcp_nopush": proxied(nginx("tcp_nopush on; sendfile on; tcp_nodelay off; proxy_buffering off;")),
    "nginx proxies to nowhere": Case((nginx("return 502;"), app()), ("not_a_stream", FINE), ANY),
    "nginx asks for a login": Case((nginx("return 401;"), app()), ("not_a_stream", FINE), ANY),
    "nginx shows a page": Case(
        (nginx("default_type text/html; return 200 hello;"), app()), ("not_a_stream", FINE), ANY
    ),
}

HAPROXY: Mapping[str, Case] = {
    "haproxy stock": proxied(haproxy(), TIME, CORK),
    "haproxy no-delay": proxied(haproxy(NO_DELAY)),
    "haproxy http-server-close": proxied(haproxy("option http-server-close"), TIME, CORK),
    "haproxy httpclose": proxied(haproxy("option httpclose"), TIME, CORK),
    "haproxy http-buffer-request": proxied(haproxy("option http-buffer-request"), TIME, CORK),
    "haproxy mode tcp": proxied(haproxy("mode tcp", defaults=["mode tcp"])),
    "haproxy gzip, no-delay": proxied(
        haproxy(NO_DELAY, "compression algo gzip"), LATE, CODING, behind=app("transformable")
    ),
    "haproxy gzip": proxied(haproxy("compression algo gzip"), TIME, CORK, behind=app("transformable")),
    "haproxy gzip of html": proxied(haproxy(NO_DELAY, "compression algo gzip", "compression type text/html")),
    "haproxy gzip, no-transform": proxied(haproxy(NO_DELAY, "compression algo gzip")),
    "haproxy waits for 1000 bytes": proxied(
        haproxy(NO_DELAY, "http-response wait-for-body time 4s at-least 1000"), "headers_late", BUFFER
    ),
    "haproxy waits for the body": proxied(
        haproxy(NO_DELAY, "http-response wait-for-body time 1s"),
        "not_a_stream|headers_late",
        ANY,
        why="it answers 504 in the end",
    ),
    "haproxy timeout client 1 s": proxied(haproxy(NO_DELAY, defaults=["timeout client 1s"]), silence_seconds=2),
    "haproxy splice": proxied(haproxy(NO_DELAY, defaults=["option splice-auto"])),
    "haproxy adds headers": proxied(haproxy("http-send-name-header X-Name", "option forwardfor"), TIME, CORK),
    "haproxy timeout server 1 s": proxied(
        haproxy(NO_DELAY, "timeout server 1s"), "cut_by_silence", "idle_timeout", silence_seconds=2
    ),
    "haproxy stock, timeout server 1 s": proxied(
        haproxy("timeout server 1s"),
        f"cut_by_silence|{TIME}",
        f"idle_timeout|{CORK}",
        silence_seconds=2,
        why="it does both",
    ),
}

CADDY: Mapping[str, Case] = {
    "caddy stock": proxied(caddy()),
    "caddy flush -1": proxied(caddy("flush_interval -1")),
    "caddy flush 1 s": proxied(caddy("flush_interval 1s")),
    "caddy gzip": proxied(caddy(site="encode gzip")),
    # Caddy 2.6 does not flush its compressors; from 512 bytes in one piece on, which no tick has, it compresses.
    "caddy compresses all": proxied(
        caddy(site="encode {\nzstd\ngzip\nminimum_length 1\nmatch {\nheader Content-Type *\n}\n}"),
        f"{HELD}|{SIZE}|{FINE}",
        f"|{CODING}",
        why="later versions flush",
    ),
    "caddy buffers responses": proxied(caddy("response_buffers unlimited"), HELD, FILTER),
    "caddy buffers the first 1 KB": proxied(caddy("response_buffers 1024"), "headers_late", BUFFER),
    "caddy buffers the first 16 KB": proxied(
        caddy("response_buffers 16384"),
        f"{SIZE}|headers_late",
        BUFFER,
        why="it is the first block only, of more than a few ticks make",
    ),
    "caddy buffers the first 64 KB": proxied(
        caddy("response_buffers 65536"),
        f"{SIZE}|headers_late",
        BUFFER,
        why="it is the first block only, of more than a few ticks make",
    ),
    "caddy buffers requests": proxied(caddy("request_buffers 65536")),
    "caddy without keepalive": proxied(caddy("transport http {\nkeepalive off\nversions 1.1\n}")),
    "caddy read timeout 1 s": proxied(
        caddy("transport http {\nread_timeout 1s\n}"), "cut_by_silence", "idle_timeout", silence_seconds=2
    ),
    "caddy read timeout 5 s": proxied(caddy("transport http {\nread_timeout 5s\n}"), silence_seconds=2),
    "caddy response header timeout": proxied(caddy("transport http {\nresponse_header_timeout 1s\n}")),
}

APACHE: Mapping[str, Case] = {
    "apache stock": proxied(apache()),
    "apache flushpackets=off": proxied(apache(options="flushpackets=off")),
    "apache deflate": proxied(apache(OF_EVENTS)),
    "apache deflate, DeflateBufferSize": proxied(apache(OF_EVENTS, "DeflateBufferSize 64000")),
    "apache brotli": proxied(apache("AddOutputFilterByType BROTLI_COMPRESS text/event-stream")),
    "apache mod_buffer": proxied(in_apache("SetOutputFilter BUFFER")),
    "apache mod_substitute": proxied(
        apache("AddOutputFilterByType SUBSTITUTE text/event-stream", "Substitute s/aa/bb/n")
    ),
    "apache mod_sed": proxied(
        in_apache("AddOutputFilterByType Sed text/event-stream", "OutputSed s/aa/bb/g"), LATE, BUFFER
    ),
    "apache ext_filter cat": proxied(
        apache("ExtFilterDefine c mode=output cmd=/bin/cat", "<Location />", "SetOutputFilter c", "</Location>"),
        SIZE,
        BUFFER,
    ),
    "apache ext_filter tr": proxied(
        apache(
            'ExtFilterDefine c mode=output cmd="/usr/bin/tr A-Z A-Z"',
            "<Location />",
            "SetOutputFilter c",
            "</Location>",
        ),
        SIZE,
        BUFFER,
    ),
    "apache ratelimit": proxied(apache("SetOutputFilter RATE_LIMIT", "SetEnv rate-limit 40"), TIME, BUFFER),
    "apache HTTP/1.0 to the app": proxied(apache("SetEnv force-proxy-request-1.0 1", "SetEnv proxy-nokeepalive 1")),
    "apache ProxyTimeout 1": proxied(apache("ProxyTimeout 1"), "cut_by_silence", "idle_timeout", silence_seconds=2),
    "apache ProxyIOBufferSize": proxied(apache("ProxyIOBufferSize 65536")),
    "apache mod_cache_disk": proxied(apache("CacheEnable disk /", "CacheRoot {folder}")),
    "apache ratelimit 4": proxied(apache("SetOutputFilter RATE_LIMIT", "SetEnv rate-limit 4"), TIME, BUFFER),
    "apache ext_filter python": proxied(
        apache(
            "ExtFilterDefine c mode=output"
            " cmd=\"/usr/bin/python3 -c 'import sys; sys.stdout.write(sys.stdin.read())'\"",
            "<Location />",
            "SetOutputFilter c",
            "</Location>",
        ),
        HELD,
        FILTER,
    ),
    "apache ext_filter cat -u, gzip": proxied(
        apache(
            "ExtFilterDefine c mode=output cmd=/bin/cat", "<Location />", "SetOutputFilter c;DEFLATE", "</Location>"
        ),
        SIZE,
        BUFFER,
    ),
    "apache sed and deflate": proxied(in_apache("SetOutputFilter Sed;DEFLATE", "OutputSed s/aa/bb/g"), LATE, BUFFER),
    "apache buffer of 1 KB": proxied(in_apache("SetOutputFilter BUFFER", "BufferSize 1024")),
    "apache mod_include": proxied(in_apache("Options +Includes", "SetOutputFilter INCLUDES")),
}

SENT_AT_ONCE = "server.stream-response-body = 2"
DEFLATED = 'deflate.mimetypes = ( "" )\ndeflate.allowed-encodings = ( "gzip" )'

LIGHTTPD: Mapping[str, Case] = {
    "lighttpd stock": proxied(lighttpd(), HELD, FILTER),  # it reads an answer to its end, and then says its length
    "lighttpd streams": proxied(lighttpd("server.stream-response-body = 1")),
    "lighttpd streams at once": proxied(lighttpd(SENT_AT_ONCE)),
    "lighttpd deflate": proxied(lighttpd(SENT_AT_ONCE, DEFLATED)),
    "lighttpd deflate, transformable": proxied(lighttpd(SENT_AT_ONCE, DEFLATED), behind=app("transformable")),
    "lighttpd read-timeout 1 s": proxied(
        lighttpd(SENT_AT_ONCE, backend=', "read-timeout" => 1'), "cut_by_silence", "idle_timeout", silence_seconds=4
    ),
    "lighttpd read-timeout 30 s": proxied(lighttpd(SENT_AT_ONCE, backend=', "read-timeout" => 30'), silence_seconds=4),
    "lighttpd max-write-idle 1 s": proxied(
        lighttpd(SENT_AT_ONCE, "server.max-write-idle = 1"), "cut_by_silence", "idle_timeout", silence_seconds=4
    ),
    "lighttpd proxies to nowhere": Case(
        (Server("lighttpd", 'proxy.server = ( "" => (( "host" => "127.0.0.1", "port" => 1 )) )'), app()),
        ("not_a_stream", FINE),
        ANY,
    ),
    "nginx > lighttpd stock": Case((nginx(), lighttpd(), app()), (FINE, HELD, FINE), FILTER),
    "lighttpd streams > nginx holds": Case((lighttpd(SENT_AT_ONCE), nginx(IGNORED), app()), (FINE, SIZE, FINE), BUFFER),
}

NODE: Mapping[str, Case] = {
    "node http-proxy": proxied(node("http-proxy")),
    "node http-proxy-middleware": proxied(node("http-proxy-middleware")),
    "node interceptor": proxied(node("interceptor"), HELD, FILTER),
    "node text()": proxied(node("text"), HELD, FILTER),
    "node fetch": proxied(node("fetch")),
    "node pipe": proxied(node("pipe")),
    # The kit's no-transform keeps it away, which is the cure; behind what strips it, it bites.
    "express compression": proxied(node("compression")),
    "express compression, no mark": proxied(
        node("compression"),
        f"{HELD}|{SIZE}",
        CODING,
        behind=app("transformable"),
        why="gzip fills 16 KB, and br everything",
    ),
    "express compression, gzip flushed": proxied(
        node("compression-gzip-flushed"), f"{HELD}|{SIZE}", CODING, behind=app("transformable"), why="br is held"
    ),
    "express compression, both flushed": proxied(node("compression-flushed"), behind=app("transformable")),
    "express compression, not of events": proxied(node("compression-not-of-events"), behind=app("transformable")),
    "node gzip": proxied(
        node("gzip"),
        f"{HELD}|{SIZE}",
        f"{CODING}|{BUFFER}|{FILTER}",
        why="zlib fills 16 KB, and says its own 10 bytes at once",
    ),
    "node gzip flushed": proxied(node("gzip-flushed")),
    "node blocks of 512": proxied(node("blocks-of-512"), SIZE, BUFFER),
    "node strips the mark, blocks of 8 KB": proxied(node("blocks-of-8192"), SIZE, BUFFER),
    "node blocks of 32 KB": proxied(node("blocks-of-32768"), SIZE, BUFFER),
    "node holds the first 1 KB": proxied(node("first-1024"), "headers_late", BUFFER),
    "node holds the first 16 KB": proxied(
        node("first-16384"),
        f"{SIZE}|headers_late",
        BUFFER,
        why="it is the first block only, of more than a few ticks make",
    ),
    "node blocks of 2 KB": proxied(node("blocks-of-2048"), SIZE, BUFFER),
    "node blocks of 128 KB": proxied(node("blocks-of-131072"), SIZE, BUFFER),
    "node holds the first 300 bytes": proxied(
        node("first-300"), f"{FINE}|headers_late", f"|{BUFFER}", why="the first tick is nearly as long"
    ),
    "node holds the first 3 KB": proxied(node("first-3000"), "headers_late", BUFFER),
    "node every 1 s": proxied(node("every-1000-ms"), TIME, BUFFER),
    "node every 250 ms": proxied(node("every-250-ms"), TIME, BUFFER),
    "node cork of 2": proxied(node("cork-2"), SIZE, BUFFER),
    "node cork of 20": proxied(node("cork-20"), SIZE, BUFFER),
    "node waits for a pause": proxied(
        node("pause-50-ms"), f"{FINE}|{TIME}", f"|{BUFFER}", why="50 ms are as little as a busy machine takes"
    ),
    "node waits for a longer pause": proxied(node("pause-150-ms"), TIME, BUFFER),
    "node two late": proxied(node("two-newest"), LATE, BUFFER),
    "node in lines": proxied(node("lines")),
    "node every 500 ms": proxied(node("every-500-ms"), TIME, BUFFER),
    "node every 150 ms": proxied(node("every-150-ms"), TIME, f"{BUFFER}"),
    "node cork of 10": proxied(node("cork-10"), SIZE, BUFFER),
    "node cork of 4": proxied(node("cork-4"), SIZE, BUFFER),
    "node keeps the newest": proxied(node("newest"), LATE, BUFFER),
    "node strips the mark": proxied(node("strips-the-mark")),
    "node 40 ms away": proxied(node("40-ms-away")),
    "node 80 ms away": proxied(node("80-ms-away")),
    "node 250 ms away": proxied(node("250-ms-away")),
    "node takes 150 ms for each piece": proxied(node("150-ms-each"), SIZE, BUFFER),
    "node up to 150 ms away": proxied(node("up-to-150-ms-away")),
    "node holds the first second": proxied(node("first-1-s"), "headers_late", BUFFER),
    "node ends after 2 s": proxied(node("ends-after-2-s"), "cut_by_duration", "duration_limit"),
    "node ends after 1 s": proxied(node("ends-after-1-s"), "cut_by_duration", "duration_limit"),
    "node cuts after 1 s": proxied(node("cuts-after-1-s"), "cut_by_duration", "duration_limit"),
    "node impatient": proxied(node("impatient-1-s"), "cut_by_silence", "idle_timeout", silence_seconds=2),
    "node one by one": proxied(node("one-by-one"), "serialised", "no_free_worker"),
    "node remembers": proxied(node("remembering"), "replayed", "cache"),
}

SYNC = ("-k", "sync")
KILLED = ("-k", "sync", "--timeout", "3")

APPS: Mapping[str, Case] = {
    "gevent": alone(app()),
    "gthread": alone(app("", "-k", "gthread", "--threads", "16")),
    "gthread, timeout 3": alone(app("", "-k", "gthread", "--threads", "16", "--timeout", "3")),
    "sync": alone(app("", *SYNC), "serialised", "no_free_worker"),
    "gthread of one thread": alone(app("", "-k", "gthread", "--threads", "1"), "serialised", "no_free_worker"),
    "gevent, one connection": alone(
        app("", "-k", "gevent", "--worker-connections", "1"), "serialised", "no_free_worker"
    ),
    "sync, timeout 3": alone(
        app("", *KILLED), "cut_by_duration|serialised", "worker_timeout|no_free_worker", why="it does both"
    ),
    "joined": alone(app("joined"), HELD, IN_PROCESS, why="nothing outside of the process tells them apart"),
    "joined with length": alone(app("joined-with-length"), HELD, IN_PROCESS),
    "gzip without flush": alone(app("gzip"), f"{HELD}|{SIZE}", CODING, why="zlib fills 16 KB, which few ticks do"),
    "gzip with flush": alone(app("gzip-flushed")),
    "br without flush": alone(app("br"), f"{HELD}|{SIZE}", CODING, why="it holds more than most streams are long"),
    "br with flush": alone(app("br-flushed")),
    "zstd without flush": alone(app("zstd"), f"{HELD}|{SIZE}", CODING, why="it holds more than most streams are long"),
    "text/plain joined": alone(app("plain-only"), note="text/plain"),
    "batches of 10": alone(app("batches-of-10"), SIZE, "token_accumulator"),
    "batches of 500 ms": alone(app("batches-of-500-ms"), TIME, BUFFER),
    "blocks of 1 KB": alone(app("blocks-of-1-kb"), SIZE, BUFFER),
    "byte by byte": alone(app("byte-by-byte")),
    "replaying": alone(app("replaying"), "replayed", "cache"),
    "blocked hub": alone(app("blocked-hub"), "source_stalled", "blocked_hub"),
    "a page": alone(app("no-stream"), "not_a_stream", ANY),
    "waitress": alone(waitress()),
    "waitress 18000": alone(waitress(send_bytes=18000), SIZE, BUFFER),
    "waitress 1000": alone(waitress(send_bytes=1000), SIZE, BUFFER),
    "waitress of one thread": alone(waitress(threads=1), "serialised", "no_free_worker"),
}


def chain(*hops: tuple[Server, str], cause: str, **more: object) -> Case:
    """Hops with the verdict on each, outermost first."""
    servers, verdicts = zip(*hops)
    return Case(servers, verdicts, cause, **more)  # type: ignore[arg-type]


STREAMS = (app(), FINE)


def alike(verdict: str, outer: Server, inner: Server, cause: str, **more: object) -> Case:
    """Two hops that do the same, the outer one more of it: both are named."""
    return chain((outer, verdict), (inner, verdict), STREAMS, cause=cause, **more)


CHAINS: Mapping[str, Case] = {
    "nginx > nginx: the mark is eaten": chain((nginx(), SIZE), (nginx(), FINE), STREAMS, cause=BUFFER),
    "nginx > nginx: the mark is passed on": chain(
        (nginx(), FINE), (nginx("proxy_pass_header X-Accel-Buffering;"), FINE), STREAMS, cause=""
    ),
    "nginx > nginx: the inner one holds": chain(
        (nginx("proxy_buffering off;"), FINE), (nginx(IGNORED), SIZE), STREAMS, cause=BUFFER
    ),
    "nginx > nginx: both hold, 16k in 4k": chain(
        (nginx(IGNORED + "proxy_buffer_size 16k; proxy_buffers 8 16k;"), SIZE),
        (nginx(IGNORED), SIZE),
        STREAMS,
        cause=BUFFER,
    ),
    "nginx > haproxy": chain((nginx(), FINE), (haproxy(), TIME), STREAMS, cause=CORK),
    "nginx HTTP/1.1 > haproxy": chain((nginx(NGINX_11), FINE), (haproxy(), TIME), STREAMS, cause=CORK),
    "haproxy > nginx": chain((haproxy(), TIME), (nginx(), FINE), STREAMS, cause=CORK),
    "haproxy no-delay > nginx holds": chain((haproxy(NO_DELAY), FINE), (nginx(IGNORED), SIZE), STREAMS, cause=BUFFER),
    "haproxy > nginx holds": chain(
        (haproxy(), f"{TIME}|{FINE}"),
        (nginx(IGNORED), SIZE),
        STREAMS,
        cause=f"{CORK}|{BUFFER}",
        why="what is held behind it hides most of what it adds",
    ),
    "caddy buffers > apache": chain(
        (caddy("response_buffers unlimited"), HELD), (apache(), FINE), STREAMS, cause=FILTER
    ),
    "caddy > apache sed": chain(
        (caddy(), FINE),
        (in_apache("AddOutputFilterByType Sed text/event-stream", "OutputSed s/aa/bb/g"), LATE),
        STREAMS,
        cause=BUFFER,
    ),
    "apache > node blocks": chain((apache(), FINE), (node("blocks-of-512"), SIZE), STREAMS, cause=BUFFER),
    "node 500 ms > apache": chain((node("every-500-ms"), TIME), (apache(), FINE), STREAMS, cause=BUFFER),
    "nginx holds > joined": chain(
        (nginx(IGNORED), FINE),
        (app("joined"), HELD),
        cause=IN_PROCESS,
        why="what comes in one lump behind it, it cannot hold",
    ),
    "nginx > joined": chain((nginx(), FINE), (app("joined"), HELD), cause=IN_PROCESS),
    "nginx > sync": chain((nginx(), FINE), (app("", *SYNC), "serialised"), cause="no_free_worker"),
    "nginx > blocked hub": chain((nginx(), FINE), (app("blocked-hub"), "source_stalled"), cause="blocked_hub"),
    "caddy > batches of 10": chain((caddy(), FINE), (app("batches-of-10"), SIZE), cause="token_accumulator"),
    "node compression > blocks": chain(
        (node("compression"), f"{HELD}|{SIZE}|{FINE}"),
        (app("blocks-of-1-kb"), SIZE),
        cause=f"{CODING}|{BUFFER}",
        why="no-transform keeps the compressor away",
    ),
    "nginx holds > haproxy holds": chain((nginx(IGNORED), SIZE), (haproxy(), TIME), STREAMS, cause=BUFFER),
    "caddy buffers > nginx holds": chain(
        (caddy("response_buffers unlimited"), HELD), (nginx(IGNORED), SIZE), STREAMS, cause=FILTER
    ),
    "apache > gzip app": chain(
        (apache(), FINE), (app("gzip"), f"{HELD}|{SIZE}"), cause=CODING, why="zlib fills 16 KB, which few ticks do"
    ),
    "nginx > caddy > apache": chain((nginx(), FINE), (caddy(), FINE), (apache(), FINE), STREAMS, cause=""),
    "caddy > nginx > nginx: the mark is eaten": chain(
        (caddy(), FINE), (nginx(), SIZE), (nginx(), FINE), STREAMS, cause=BUFFER
    ),
    "nginx read timeout > caddy": chain(
        (nginx("proxy_read_timeout 1s;"), "cut_by_silence"),
        (caddy(), FINE),
        STREAMS,
        cause="idle_timeout",
        silence_seconds=2,
    ),
    "caddy > nginx read timeout": chain(
        (caddy(), FINE),
        (nginx("proxy_read_timeout 1s;"), "cut_by_silence"),
        STREAMS,
        cause="idle_timeout",
        silence_seconds=2,
    ),
    "nginx read timeout > caddy read timeout 3 s": alike(
        "cut_by_silence",
        nginx("proxy_read_timeout 1s;"),
        caddy("transport http {\nread_timeout 3s\n}"),
        "idle_timeout",
        silence_seconds=5,
    ),
    "caddy 8 KB > caddy 1 KB": alike(
        "headers_late", caddy("response_buffers 8192"), caddy("response_buffers 1024"), BUFFER
    ),
    "node keeps the newest, twice": alike(LATE, node("newest"), node("newest"), BUFFER),
    "node ends after 1 s > node ends after 2 s": alike(
        "cut_by_duration", node("ends-after-1-s"), node("ends-after-2-s"), "duration_limit"
    ),
    "node 250 ms away > node every 500 ms": chain(
        (node("250-ms-away"), FINE), (node("every-500-ms"), TIME), STREAMS, cause=BUFFER, note="ms away"
    ),
    "node 250 ms away > node blocks": chain(
        (node("250-ms-away"), FINE), (node("blocks-of-512"), SIZE), STREAMS, cause=BUFFER, note="ms away"
    ),
    "node every 500 ms > node 250 ms away": chain(
        (node("every-500-ms"), TIME), (node("250-ms-away"), FINE), STREAMS, cause=BUFFER
    ),
    "node ends after 2 s > node blocks": chain(
        (node("ends-after-2-s"), "cut_by_duration"), (node("blocks-of-512"), SIZE), STREAMS, cause="duration_limit"
    ),
    "node ends after 2 s > nginx": chain(
        (node("ends-after-2-s"), "cut_by_duration"), (nginx(), FINE), STREAMS, cause="duration_limit"
    ),
}


@dataclass(frozen=True)
class Mistake:
    """How a mistake of the lab shows.

    Attributes:
        probe, chat: the verdict on each; "one|other": both are right. What the probe shows too, the chat does not add.
        cause: the first one; "": there is none.
        why: two answers are right, or nothing is to be seen.
        note: on the chat, part of it.
    """

    probe: str = FINE
    chat: str = FINE
    cause: str = ""
    why: str = ""
    note: str = ""

    def cases(self, name: str) -> Mapping[str, Case]:
        """Return one with the probe alone, and one with the probe beside the chat."""
        server, beside = (lab(name),), "" if self.probe == FINE else self.cause
        return {
            f"lab {name}: the probe": Case(server, (self.probe,), beside, self.why),
            f"lab {name}: the chat": Case(
                server, (self.chat, self.probe), self.cause, self.why, note=self.note, endpoint=CHAT
            ),
        }


MISTAKES: Mapping[str, Mistake] = {
    "none": Mistake(),
    # In the app, or in its server: whatever streams is held.
    "joined_body": Mistake(HELD, cause=IN_PROCESS, why="nothing outside of the process tells them apart"),
    "body_reading_hook": Mistake(HELD, cause=IN_PROCESS, why="nothing outside of the process tells them apart"),
    "gzip_without_flush": Mistake(f"{HELD}|{SIZE}", cause=CODING, why="zlib fills 16 KB, which few ticks do"),
    "sync_worker": Mistake("serialised", cause="no_free_worker"),
    "worker_timeout": Mistake(
        "cut_by_duration|truncated|serialised",
        cause="worker_timeout|no_free_worker",
        why="it does both, and there may be no time to see it cut twice",
    ),
    # In the view: the probe streams, which splits the problem.
    "unstreamed_upstream": Mistake(chat=HELD, cause="late_upstream_reader"),
    "late_reader": Mistake(chat=SIZE, cause="late_upstream_reader"),
    "blocked_hub": Mistake(chat="serialised", cause="blocked_hub"),
    "token_accumulator": Mistake(why="what a view makes, it sends at once: there is a note", note="token_accumulator"),
    # Nothing is held.
    "unflushed_print": Mistake(why="no client sees the debug lines"),
    "cut_looks_whole": Mistake(why="it says `done`"),
    "upstream_left_open": Mistake(why="no client sees the upstream"),
}

LAB: Mapping[str, Case] = {
    **{
        f"lab none, {1000 / interval_ms:.0f} tokens a second: the chat": Case(
            (lab("none", 150, interval_ms),), (FINE, FINE), endpoint=CHAT
        )
        for interval_ms in (3, 5, 8, 10, 12)
    },
    **{name: case for fault, mistake in MISTAKES.items() for name, case in mistake.cases(fault).items()},
    "nginx > lab unstreamed_upstream: the chat": Case(
        (nginx(), lab("unstreamed_upstream")), (HELD, FINE, FINE), "late_upstream_reader", endpoint=CHAT
    ),
    "nginx holds > lab none: the chat": Case((nginx(IGNORED), lab("none")), (FINE, SIZE, FINE), BUFFER, endpoint=CHAT),
}


def allows(expected: str, said: str) -> bool:
    """Tell whether this is one of the answers that are right."""
    return expected == ANY or said in expected.split("|")


def judged(hops: Sequence[Hop]) -> tuple[tuple[str, ...], str]:
    """Return the verdict on each hop, and the first cause of the outermost one that is at fault; "": there is none."""
    causes = (hop.causes[0].name for hop in hops if hop.is_offender and hop.causes)
    return tuple(hop.verdict.name for hop in hops), next(causes, "")


def is_right(case: Case, hops: Sequence[Hop]) -> bool:
    """Tell whether that was said which was expected."""
    verdicts, cause = judged(hops)
    notes = " ".join(note for hop in hops for note in hop.notes)
    return all(map(allows, case.verdicts, verdicts)) and allows(case.cause, cause) and case.note in notes


CASES: Mapping[str, Case] = {**NGINX, **HAPROXY, **CADDY, **APACHE, **LIGHTTPD, **NODE, **APPS, **CHAINS, **LAB}

HEALTHY = (
    "gevent",
    "nginx stock",
    "haproxy no-delay",
    "caddy stock",
    "apache stock",
    "node http-proxy",
    "nginx gzip of events",
    "apache deflate",
    "nginx > caddy > apache",
    "br with flush",
)
"""Cases with nothing the matter, for false alarms."""
