// The first process of a machine that means ill. Which ill is said when it is compiled.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int channel = -1;

static void load_modules(void) {
    char name[256], path[300];
    FILE *list = fopen("/modules/list", "r");
    while (list && fscanf(list, "%255s", name) == 1) {
        snprintf(path, sizeof path, "/modules/%s", name);
        int file = open(path, O_RDONLY);
        syscall(SYS_finit_module, file, "", 0);
        close(file);
    }
}

static void open_channel(void) {
    while (channel < 0) {
        DIR *devices = opendir("/dev");
        for (struct dirent *entry; devices && (entry = readdir(devices));) {
            char path[300];
            size_t length = strlen(entry->d_name);
            if (strncmp(entry->d_name, "vport", 5) || strcmp(entry->d_name + length - 2, "p1")) continue;
            snprintf(path, sizeof path, "/dev/%s", entry->d_name);
            channel = open(path, O_RDWR);
        }
        closedir(devices);
        usleep(1000);
    }
}

static void say(const char *bytes, size_t length) {
    while (length) {
        ssize_t count = write(channel, bytes, length);
        if (count > 0) bytes += count, length -= count;
        else usleep(1000);
    }
}

// As our guest does: four bytes of length, one of kind, four of the stream, the words.
static void welcome(void) {
    static const char words[] = "\x12\0\0\0\x01\0\0\0\0{\"version\":2}";
    say(words, sizeof words - 1);
}

// The host's first word.
static void hear(void) {
    char bytes[4096];
    while (read(channel, bytes, sizeof bytes) <= 0) usleep(1000);
}

int main(void) {
    mkdir("/dev", 0755);
    mount("dev", "/dev", "devtmpfs", 0, "");
    load_modules();
    open_channel();
    welcome();
    hear();
#if defined CRASH
    FILE *trigger = (mkdir("/proc", 0755), mount("proc", "/proc", "proc", 0, ""), fopen("/proc/sysrq-trigger", "w"));
    fputs("c", trigger);
    fflush(trigger);
#elif defined GARBAGE
    static char bytes[65536];
    memset(bytes, 0xff, sizeof bytes);
    for (;;) say(bytes, sizeof bytes);
#elif defined FLOOD
    // Whole frames of data, for a stream that nobody has opened.
    static char frame[65536];
    unsigned length = sizeof frame - 4;
    memcpy(frame, &length, 4);
    frame[4] = 3;
    frame[5] = 77;
    frame[9] = 1;
    welcome();
    for (;;) say(frame, sizeof frame);
#elif defined CONSOLE
    welcome();
    int console = open("/dev/hvc0", O_WRONLY);
    static char words[65536];
    memset(words, 'x', sizeof words);
    for (;;) write(console, words, sizeof words);
#elif defined SPIN
    welcome();
    for (;;) {}
#elif defined OFF
    reboot(RB_POWER_OFF);
#endif
    for (;;) pause();
}
