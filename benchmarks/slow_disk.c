/* Preloaded into a broker: a flush of a log whose path contains "/busy-" takes SLOW_DISK_MS longer than the disk needs.
   What others write to is flushed as usual. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void wait_for_disk(int file) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length <= 0) return;
    path[length] = 0;
    if (strstr(path, "/busy-") == NULL) return;
    const char *text = getenv("SLOW_DISK_MS");
    long ms = text ? atol(text) : 0;
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

int fsync(int file) {
    int (*own)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    wait_for_disk(file);
    return own(file);
}

int fdatasync(int file) {
    int (*own)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    wait_for_disk(file);
    return own(file);
}
