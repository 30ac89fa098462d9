// Common code of the test programs that run as the init process of a microVM: loads kernel modules, opens the channel.
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

static void send_all(const char *bytes, size_t length) {
    while (length) {
        ssize_t count = write(channel, bytes, length);
        if (count > 0) bytes += count, length -= count;
        else usleep(1000);
    }
}

// Sends the guest agent's `Welcome`: length (4 bytes), kind (1), stream (4), JSON message.
static void welcome(void) {
    static const char message[] = "\x12\0\0\0\x01\0\0\0\0{\"version\":2}";
    send_all(message, sizeof message - 1);
}

// Last frame from the host, zero-terminated. Byte 4 is the frame's kind, bytes 5 to 8 are its stream id.
static char received[65536];

static void receive(void) {
    size_t length = 0, whole = 4;
    while (length < whole) {
        ssize_t count = read(channel, received + length, whole - length);
        if (count <= 0) {
            usleep(1000);
            continue;
        }
        length += count;
        unsigned rest;
        memcpy(&rest, received, 4);
        if (length >= 4) whole = 4 + rest;
    }
    received[whole] = 0;
}

static void begin(void) {
    mkdir("/dev", 0755);
    mount("dev", "/dev", "devtmpfs", 0, "");
    load_modules();
    open_channel();
}
