// Node's bare pipe, as little as a relay can do in it: `node pipe.mjs PORT UPSTREAM`.
import http from "node:http";

const [port, upstream] = process.argv.slice(2);
const target = new URL(upstream);
const agent = new http.Agent({ keepAlive: true, maxSockets: Infinity });

http.createServer((request, response) => {
  if (request.method === "GET") return response.end("ready");
  const { host, connection, ...headers } = request.headers;
  const asked = http.request(
    { host: target.hostname, port: target.port, path: request.url, method: request.method, headers, agent },
    (answer) => {
      response.writeHead(answer.statusCode, { "content-type": answer.headers["content-type"] });
      answer.pipe(response);
    },
  );
  asked.on("error", () => response.destroy());
  response.on("close", () => asked.destroy());
  request.pipe(asked);
}).listen(Number(port), "127.0.0.1", 4096);
