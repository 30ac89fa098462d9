// The first process of a machine in which an ordinary user may do what such users may, on a whole system with control
// groups of the second version: it runs one program, whatever the host asks for, and tells what it writes.
#include <stdlib.h>
#include <sys/wait.h>

#include "begin.h"

#define USER 1000

static void put(const char *path, const char *text) {
    int file = open(path, O_WRONLY);
    if (file < 0 || write(file, text, strlen(text)) < 0) perror(path);
    close(file);
}

// As systemd hands groups to a user: one that is theirs, and they in one below it.
static void hand_over_groups(void) {
    put("/sys/fs/cgroup/cgroup.subtree_control", "+memory +pids +cpu");
    static const char *theirs[] = {"", "/cgroup.procs", "/cgroup.subtree_control", "/cgroup.threads"};
    static const char *groups[] = {"/sys/fs/cgroup/user", "/sys/fs/cgroup/user/own"};
    for (int group = 0; group < 2; group++) {
        mkdir(groups[group], 0755);
        if (group == 0) put("/sys/fs/cgroup/user/cgroup.subtree_control", "+memory +pids +cpu");
        for (int file = 0; file < 4; file++) {
            char path[200];
            snprintf(path, sizeof path, "%s%s", groups[group], theirs[file]);
            if (chown(path, USER, USER)) perror(path);
        }
    }
}

static void enter_root(void) {
    mount("/dev/vda", "/root", "squashfs", MS_RDONLY, "");
    mount("/dev", "/root/dev", "", MS_MOVE, "");
    chdir("/root");
    mount(".", "/", "", MS_MOVE, "");
    chroot(".");
    chdir("/");
    mount("proc", "/proc", "proc", 0, "");
    mount("sys", "/sys", "sysfs", 0, "");
    mount("groups", "/sys/fs/cgroup", "cgroup2", 0, "");
    mount("tmp", "/tmp", "tmpfs", 0, "mode=1777");
    mkdir("/dev/shm", 01777);
    mount("shm", "/dev/shm", "tmpfs", 0, "mode=1777");
    hand_over_groups();
}

static void frame(char kind, unsigned stream, const char *bytes, unsigned length) {
    char head[9];
    unsigned whole = 5 + length;
    memcpy(head, &whole, 4);
    head[4] = kind;
    memcpy(head + 5, &stream, 4);
    say(head, sizeof head);
    say(bytes, length);
}

int main(void) {
    begin();
    enter_root();
    welcome();
    hear();
    mount("/dev/vdb", "/opt/layers", "squashfs", MS_RDONLY, "");
    welcome();
    // Which program is known: the one in the only layer there is.
    do hear(); while (heard[4] != 2);
    unsigned stream;
    memcpy(&stream, heard + 5, 4);
    int pipes[2];
    pipe(pipes);
    if (fork() == 0) {
        put("/sys/fs/cgroup/user/own/cgroup.procs", "0");
        dup2(open("/dev/null", O_RDONLY), 0);
        dup2(pipes[1], 1);
        dup2(pipes[1], 2);
        for (int file = 3; file < 64; file++) close(file);
        setsid();
        setgid(USER);
        setuid(USER);
        setenv("HOME", "/tmp", 1);
        setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1);
        setenv("ASSIZE_TEST_WITHIN_A_MACHINE", "yes", 1);
        chdir("/tmp");
        execl("/bin/sh", "sh", "-c", "exec /opt/layers/*/tests --test-threads=1 " TESTS, NULL);
        _exit(126);
    }
    close(pipes[1]);
    char bytes[4097];
    bytes[0] = 1;
    for (ssize_t count; (count = read(pipes[0], bytes + 1, 4096)) > 0;) frame(3, stream, bytes, count + 1);
    int status;
    wait(&status);
    char ended[100];
    snprintf(ended, sizeof ended, "{\"ended\":{\"exit_code\":%d,\"micros\":1}}", WEXITSTATUS(status));
    frame(6, stream, ended, strlen(ended));
    for (;;) pause();
}
