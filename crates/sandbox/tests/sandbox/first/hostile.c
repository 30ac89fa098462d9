// The first process of a machine that means ill. Which ill is said by the number of processes it may have.
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
    for (;;) say(bytes, sizeof bytes);
}

// Whole frames of data, for a stream that nobody has opened.
static void flood(void) {
    unsigned length = sizeof bytes - 4;
    memcpy(bytes, &length, 4);
    bytes[4] = 3;
    bytes[5] = 77;
    bytes[9] = 1;
    welcome();
    for (;;) say(bytes, sizeof bytes);
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
    hear();
    // The words come after nine bytes that are none.
    const char *processes = strstr(heard + 9, "\"processes\":");
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
