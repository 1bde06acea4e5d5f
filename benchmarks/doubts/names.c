/* Preloaded into a client: the name in NAMED has the addresses that stand in the file NAMES, one a line, in this order,
   as they are there when the client asks. All other names are what they are. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*Lookup)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints, struct addrinfo **found) {
    Lookup own = (Lookup)dlsym(RTLD_NEXT, "getaddrinfo");
    const char *named = getenv("NAMED"), *names = getenv("NAMES");
    if (!name || !named || !names || strcmp(name, named)) return own(name, service, hints, found);
    if (hints && hints->ai_flags & AI_NUMERICHOST) return EAI_NONAME;
    FILE *file = fopen(names, "r");
    if (!file) return EAI_AGAIN;
    char line[64];
    struct addrinfo **end = found;
    *found = NULL;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (own(line, service, hints, end)) continue;
        while (*end) end = &(*end)->ai_next;
    }
    fclose(file);
    return *found ? 0 : EAI_NONAME;
}
