app.use(
  createProxyMiddleware({
    pathFilter: @MATCH@, // this route, with its path as it came
    target: "http://@UPSTREAM@", // the app, or what is next on the way to it
    xfwd: true, // who asks, and https or not: for the log, the links and the cookies of the app
    proxyTimeout: @TIMEOUT@ * 1000, // between two reads: the heartbeats (every 15 s) keep it alive, a dead app does not
    on: {
      proxyReq: (asked) => asked.removeHeader("accept-encoding"), // nobody compresses: what a compressor holds is late
      // An answer that breaks off breaks off for the client, too; without this it would wait for ever.
      proxyRes: (given, request, answer) => given.on("close", () => given.complete || answer.destroy()),
    },
  }),
);
