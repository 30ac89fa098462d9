// The first process of a machine that means ill. Which ill is said when it is compiled.
#include "begin.h"

int main(void) {
    begin();
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
