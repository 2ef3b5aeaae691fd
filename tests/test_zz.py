from test_proxy_config import *
def leave(url0, name="x"):
        pid = secrets.token_hex(8)
        url = f"{url0}/stream/probe?{UNMARKED}&count=4&interval=50&silence=5000&heartbeat=1500&id={pid}"
        with open_exchange(Request(url, timeout=PATIENCE)) as exchange:
            assert len(list(itertools.islice(exchange.events(), 3))) == 3
            t=time.monotonic()
            time.sleep(0.2)
        while True:
            s=json.loads(asked(f"{url0}/stream/probe?ask={pid}").body)
            if s["state"]!="running": break
            time.sleep(.05)
        print("STATE", name, s["state"], round(time.monotonic()-t-0.2,2))
def test_try(app):
    for name in PROXIES:
        with STARTERS[name](PROXIES[name].snippet("/stream/", app, 10), app) as p:
            leave(p.url, name)
    snip = PROXIES["caddy"].snippet("/stream/", app, 10).replace("transport http", "flush_interval -1\n transport http")
    with in_caddy(snip, app) as p: leave(p.url, "caddy -1")
    snip = PROXIES["haproxy"].snippet("/stream/", app, 10).replace("option abortonclose", "no option abortonclose")
    with in_haproxy(snip, app) as p: leave(p.url, "haproxy without abortonclose")
    snip = PROXIES["express"].snippet("/stream/", app, 10).replace('answer.on("close", () => asked.destroy());', "")
    with in_express(snip, app) as p: leave(p.url, "express without destroy")
