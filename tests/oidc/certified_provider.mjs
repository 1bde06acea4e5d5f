// A certified OpenID provider on loopback. Reads its settings as JSON from stdin, prints its port, ends with stdin.
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const settings = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const found = createRequire(settings.installed + '/').resolve('oidc-provider');
const { default: Provider } = await import(pathToFileURL(found));
const resource = {
  scope: 'kafka',
  audience: settings.audience,
  accessTokenTTL: settings.seconds,
  accessTokenFormat: 'jwt',
  jwt: { sign: { alg: 'RS256' } },
};
const provider = new Provider(settings.issuer, {
  clients: settings.clients.map((client) => ({
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: [],
    ...client,
  })),
  jwks: { keys: [settings.key] },
  scopes: ['kafka'],
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => 'urn:kafka',
      useGrantedResource: () => true,
      getResourceServerInfo: () => resource,
    },
  },
  ttl: { ClientCredentials: () => settings.seconds },
});
const server = createServer(provider.callback());
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
process.stdin.on('end', () => process.exit(0));
process.stdin.resume();
