/* A layer between SQLite and the disk, for tests: LD_PRELOAD it, then call files_arm.

   It counts the calls that change files below one prefix. The k-th one fails, is cut short, or
   is the last thing the process does. With a log it also writes down every change and every
   fsync, from which a test makes the disk as a power cut would leave it. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NEVER, FAIL, FAIL_FROM, SHORT, KILL_BEFORE, KILL_SHORT, KILL_AFTER };
enum { WRITE = 1, SYNC = 2, TRUNCATE = 4, NAMES = 8 };

static char prefix[PATH_MAX];
static int mode, error_number, which, logfile = -1;
static long target, calls;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void files_arm(const char *below, long k, int how, int error, int kinds, int log) {
    strncpy(prefix, below, sizeof prefix - 1);
    target = k; mode = how; error_number = error; which = kinds; logfile = log; calls = 0;
}

long files_calls(void) { return calls; }

static int below(const char *path) {
    return prefix[0] && path && strncmp(path, prefix, strlen(prefix)) == 0;
}

static const char *path_of(int fd, char *room) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, room, PATH_MAX - 1);
    if (size < 0) return NULL;
    room[size] = 0;
    return room;
}

static void die(void) { kill(getpid(), SIGKILL); for (;;) pause(); }

/* One record: kind, length of the name, offset, size; then the name; then the bytes. */
static void record(char kind, const char *path, int64_t offset, const void *data, int64_t size) {
    if (logfile < 0) return;
    struct { int64_t kind, name, offset, size; } head = {kind, strlen(path), offset, size};
    struct iovec parts[3] = {{&head, sizeof head}, {(void *)path, strlen(path)},
                             {(void *)data, data ? (size_t)size : 0}};
    if (REAL(writev)(logfile, parts, 3) < 0) abort();
}

/* What is to become of this call: NEVER (nothing), or a mode. */
static int fate(int kind) {
    if (!(which & kind)) return NEVER;
    long number = ++calls;
    if (mode == FAIL_FROM) return number >= target ? FAIL : NEVER;
    return number == target ? mode : NEVER;
}

#define MEET(kind, path) \
    int end = below(path) ? fate(kind) : NEVER; \
    if (end == KILL_BEFORE) die(); \
    if (end == FAIL || (end == SHORT && kind != WRITE)) { errno = error_number; return -1; } \
    if (end == KILL_SHORT && kind != WRITE) die();

static ssize_t put(int fd, const void *data, size_t size, off_t offset) {
    char room[PATH_MAX];
    const char *path = prefix[0] ? path_of(fd, room) : NULL;
    MEET(WRITE, path)
    size_t part = end == SHORT || end == KILL_SHORT ? size / 2 : size;
    ssize_t done = REAL(pwrite)(fd, data, part, offset);
    if (below(path) && done > 0) record('w', path, offset, data, done);
    if (end == KILL_SHORT || end == KILL_AFTER) die();
    return done;
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    return put(fd, data, size, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t offset) {
    return put(fd, data, size, offset);
}

ssize_t write(int fd, const void *data, size_t size) {
    char room[PATH_MAX];
    if (prefix[0] && below(path_of(fd, room))) {
        off_t place = lseek(fd, 0, SEEK_CUR);
        if (place >= 0) {
            ssize_t done = put(fd, data, size, place);
            if (done > 0) lseek(fd, place + done, SEEK_SET);
            return done;
        }
    }
    return REAL(write)(fd, data, size);
}

static int synced(int fd, int data_only) {
    char room[PATH_MAX];
    const char *path = prefix[0] ? path_of(fd, room) : NULL;
    MEET(SYNC, path)
    int done = data_only ? REAL(fdatasync)(fd) : REAL(fsync)(fd);
    if (prefix[0] && path && done == 0) record('s', path, 0, NULL, 0);
    if (end == KILL_AFTER) die();
    return done;
}

int fsync(int fd) { return synced(fd, 0); }
int fdatasync(int fd) { return synced(fd, 1); }

static int cut(int fd, off_t size) {
    char room[PATH_MAX];
    const char *path = prefix[0] ? path_of(fd, room) : NULL;
    MEET(TRUNCATE, path)
    int done = REAL(ftruncate)(fd, size);
    if (below(path) && done == 0) record('t', path, size, NULL, 0);
    if (end == KILL_AFTER) die();
    return done;
}

int ftruncate(int fd, off_t size) { return cut(fd, size); }
int ftruncate64(int fd, off64_t size) { return cut(fd, size); }

int unlink(const char *path) {
    MEET(NAMES, path)
    int done = REAL(unlink)(path);
    if (below(path) && done == 0) record('u', path, 0, NULL, 0);
    if (end == KILL_AFTER) die();
    return done;
}

static int linked(const char *from, const char *to) {
    MEET(NAMES, to)
    int done = REAL(link)(from, to);
    if (below(to) && done == 0) record('l', to, 0, from, strlen(from));
    if (end == KILL_AFTER) die();
    return done;
}

int link(const char *from, const char *to) { return linked(from, to); }

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    if (from_folder == AT_FDCWD && to_folder == AT_FDCWD && below(to)) return linked(from, to);
    return REAL(linkat)(from_folder, from, to_folder, to, flags);
}

int rename(const char *from, const char *to) {
    MEET(NAMES, to)
    int done = REAL(rename)(from, to);
    if (below(to) && done == 0) record('r', to, 0, from, strlen(from));
    if (end == KILL_AFTER) die();
    return done;
}
