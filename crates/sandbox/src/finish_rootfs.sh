set -eu
chroot "$1" python3 -m compileall -q -f --invalidation-mode unchecked-hash /usr/lib/python3 /usr/lib/python3.* || :
grep -q ':1000:' "$1/etc/passwd" || echo 'sandbox:x:1000:1000::/workspace:/bin/sh' >> "$1/etc/passwd"
grep -q ':1000:' "$1/etc/group" || echo 'sandbox:x:1000:' >> "$1/etc/group"
rm -rf "$1"/usr/share/doc/* "$1"/usr/share/man/* "$1"/usr/share/info/* "$1"/usr/share/locale/* \
  "$1"/usr/share/lintian "$1"/usr/share/perl* "$1"/usr/lib/*/perl "$1"/usr/lib/*/libperl.so* "$1"/var/lib/apt/lists/* "$1"/var/cache/* "$1"/var/log/*
rm -f "$1"/etc/resolv.conf "$1"/etc/hostname
