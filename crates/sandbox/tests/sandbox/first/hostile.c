// Hostile init process of a microVM. The process limit in the host's `Hello` selects the attack.
#include "begin.h"
#include <stdlib.h>

static char bytes[65536];

static void crash(void) {
    mkdir("/proc", 0755);
    mount("proc", "/proc", "proc", 0, "");
    FILE *trigger = fopen("/proc/sysrq-trigger", "w");
    fputs("c", trigger);
    fflush(trigger);
}

static void garbage(void) {
    memset(bytes, 0xff, sizeof bytes);
    for (;;) send_all(bytes, sizeof bytes);
}

// Sends valid data frames for a stream that is not open.
static void flood(void) {
    unsigned length = sizeof bytes - 4;
    memcpy(bytes, &length, 4);
    bytes[4] = 3;
    bytes[5] = 77;
    bytes[9] = 1;
    welcome();
    for (;;) send_all(bytes, sizeof bytes);
}

static void console(void) {
    welcome();
    int console = open("/dev/hvc0", O_WRONLY);
    memset(bytes, 'x', sizeof bytes);
    for (;;) write(console, bytes, sizeof bytes);
}

static void spin(void) {
    welcome();
    for (;;) {}
}

int main(void) {
    begin();
    welcome();
    receive();
    // The JSON message follows the 9 bytes of the frame header.
    const char *processes = strstr(received + 9, "\"processes\":");
    switch (processes ? atoi(processes + strlen("\"processes\":")) : 0) {
    case 101: crash(); break;
    case 102: garbage(); break;
    case 103: reboot(RB_POWER_OFF); break;
    case 104: flood(); break;
    case 105: spin(); break;
    case 106: console(); break;
    }
    for (;;) pause();
}
