// Init process of a microVM with cgroups v2, in which an unprivileged user has the usual rights. When the host sends
// any request, the process runs a shell command (COMMAND) as that user, once in each cgroup of a list (MEMBERS), and
// sends the output. The environment variable GROUP of the command is the name of the cgroup.
#include <stdlib.h>
#include <sys/wait.h>

#include "begin.h"

#define USER 1000
#define ROOT "/sys/fs/cgroup/"
#define CONTROLLERS "+memory +pids +cpu"

static void put(const char *group, const char *file, const char *text) {
    char path[200];
    snprintf(path, sizeof path, ROOT "%s/%s", group, file);
    int opened = open(path, O_WRONLY);
    if (opened < 0 || write(opened, text, strlen(text)) < 0) perror(path);
    close(opened);
}

// Creates a cgroup. A delegated cgroup belongs to the user: its folder and these files, as systemd does it.
static void make_group(const char *group, int delegated) {
    static const char *theirs[] = {"", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"};
    char path[200];
    snprintf(path, sizeof path, ROOT "%s", group);
    if (mkdir(path, 0755)) perror(path);
    for (int file = 0; delegated && file < 4; file++) {
        snprintf(path, sizeof path, ROOT "%s/%s", group, theirs[file]);
        if (chown(path, USER, USER)) perror(path);
    }
}

static void make_groups(void) {
    put("", "cgroup.subtree_control", CONTROLLERS);
    // A login session: the user's service manager enables controllers and creates a cgroup for each application.
    make_group("session", 1);
    put("session", "cgroup.subtree_control", CONTROLLERS);
    make_group("session/application", 1);
    // A service with `Delegate=yes`: its process is in the delegated cgroup itself.
    make_group("service", 1);
    // A service with `DelegateSubgroup=`: its process is one cgroup below, where no controller is enabled.
    make_group("parent", 1);
    make_group("parent/subgroup", 1);
    // A delegated cgroup that also contains another process.
    make_group("shared", 1);
    char other[20];
    pid_t process = fork();
    if (process == 0) for (;;) pause();
    snprintf(other, sizeof other, "%d", process);
    put("shared", "cgroup.procs", other);
    // A login without a session: all cgroups belong to root.
    make_group("login", 0);
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
    make_groups();
}

static void frame(char kind, unsigned stream, const char *bytes, unsigned length) {
    char head[9];
    unsigned whole = 5 + length;
    memcpy(head, &whole, 4);
    head[4] = kind;
    memcpy(head + 5, &stream, 4);
    send_all(head, sizeof head);
    send_all(bytes, length);
}

// Runs the command in a cgroup, sends its output, and returns its exit code.
static int run(const char *group, unsigned stream) {
    int pipes[2], status;
    pipe(pipes);
    pid_t process = fork();
    if (process == 0) {
        put(group, "cgroup.procs", "0");
        dup2(open("/dev/null", O_RDONLY), 0);
        dup2(pipes[1], 1);
        dup2(pipes[1], 2);
        for (int file = 3; file < 64; file++) close(file);
        setsid();
        setgid(USER);
        setuid(USER);
        setenv("HOME", "/tmp", 1);
        setenv("PATH", "/usr/local/bin:/usr/bin:/bin", 1);
        setenv("GROUP", group, 1);
        setenv("ASSIZE_TEST_WITHIN_A_MACHINE", "yes", 1);
        chdir("/tmp");
        execl("/bin/sh", "sh", "-c", COMMAND, NULL);
        _exit(126);
    }
    close(pipes[1]);
    char bytes[4097];
    bytes[0] = 1;
    for (ssize_t count; (count = read(pipes[0], bytes + 1, 4096)) > 0;) frame(3, stream, bytes, count + 1);
    close(pipes[0]);
    waitpid(process, &status, 0);
    return WEXITSTATUS(status);
}

int main(void) {
    begin();
    enter_root();
    welcome();
    receive();
    mount("/dev/vdb", "/opt/layers", "squashfs", MS_RDONLY, "");
    welcome();
    // Wait for an `Open` frame with any request; the command is fixed.
    do receive(); while (received[4] != 2);
    unsigned stream;
    memcpy(&stream, received + 5, 4);
    static const char *members[] = {MEMBERS};
    int code = 0;
    for (int member = 0; member < sizeof members / sizeof *members; member++) code |= run(members[member], stream);
    char ended[100];
    snprintf(ended, sizeof ended, "{\"ended\":{\"exit_code\":%d,\"micros\":1}}", code);
    frame(6, stream, ended, strlen(ended));
    for (;;) pause();
}
