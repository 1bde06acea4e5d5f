// Searches the built documentation as a reader's browser does, with the theme's own worker:
//
//     node tools/site_search.mjs build/site QUERY...
//
// Prints, for each query, the addresses of the pages found, best first.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import vm from "node:vm";

const [site, ...queries] = process.argv.slice(2);
const workers = join(site, "assets", "javascripts", "workers");
const source = readFileSync(join(workers, readdirSync(workers).find((name) => /^search\..*\.js$/.test(name))), "utf8");

const SETUP = 0, READY = 1, QUERY = 2;
const waiting = [];
const listeners = [];
const scope = {
  console, URL, setTimeout,
  addEventListener: (_, listener) => listeners.push(listener),
  postMessage: (message) => waiting.shift()(message),
  location: { href: "file:///" },
};
scope.self = scope;
scope.globalThis = scope;
vm.runInContext(source, vm.createContext(scope));

function ask(message) {
  const answer = new Promise((resolve) => waiting.push(resolve));
  for (const listener of listeners) listener({ data: message });
  return answer;
}

const index = JSON.parse(readFileSync(join(site, "search", "search_index.json"), "utf8"));
index.options = { suggest: false };
if ((await ask({ type: SETUP, data: index })).type !== READY) throw new Error("the search does not start");
const found = {};
for (const query of queries) {
  const { data } = await ask({ type: QUERY, data: query });
  found[query] = data.items.map((page) => page[0].location.split("#")[0]);
}
console.log(JSON.stringify(found));
