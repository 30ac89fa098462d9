//! Behaviours of the isolation: file system, network, capabilities, guest agent, code files.

use assize_sandbox::GuestFailureCause;

use crate::bench::{Bench, python, shell, text};

pub(super) async fn root_file_system_is_read_only(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let script = "for d in / /usr /usr/bin /etc /dev /proc /run; do touch $d/planted 2>/dev/null && echo $d; done; \
                  touch /tmp/ok /workspace/ok && echo ok";
    assert_eq!(text(&shell(&sandbox, script).await.stdout), "ok\n");
    assert_eq!(
        sandbox.write("/usr/planted", b"x").await.unwrap_err().cause(),
        Some(GuestFailureCause::Denied)
    );
}

pub(super) async fn network_is_unreachable(bench: Bench) {
    let code = r"
import socket
for address in (('192.0.2.1', 80), ('10.0.0.1', 53)):
    s = socket.socket(); s.settimeout(2)
    try: s.connect(address); print('connected')
    except OSError as error: print(type(error).__name__, error.errno)
try: socket.getaddrinfo('example.com', 80); print('resolved')
except OSError: print('no name')
";
    let done = bench.python(code).await;
    assert_eq!(text(&done.stdout), "OSError 101\nOSError 101\nno name\n", "{}", text(&done.stderr));
}

pub(super) async fn loopback_connections_work(bench: Bench) {
    let code = r"
import socket, threading
server = socket.create_server(('127.0.0.1', 0))
threading.Thread(target=lambda: server.accept()[0].sendall(b'hello')).start()
print(socket.create_connection(server.getsockname()).recv(9))
";
    let done = bench.python(code).await;
    assert_eq!(text(&done.stdout), "b'hello'\n", "{}", text(&done.stderr));
}

pub(super) async fn programs_have_no_capabilities(bench: Bench) {
    let code = r"
import os
print(os.getuid(), os.getgid(), os.getgroups())
status = dict(line.split(':', 1) for line in open('/proc/self/status') if ':' in line)
print([status[name].strip().lstrip('0') for name in ('CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb')])
print(status['NoNewPrivs'].strip(), status['Seccomp'].strip())
";
    let done = bench.python(code).await;
    let out = text(&done.stdout);
    assert!(out.starts_with("1000 1000 ["), "{out}");
    assert!(out.ends_with("['', '', '', '', '']\n1 2\n"), "{out}");
}

pub(super) async fn guest_agent_cannot_be_killed_or_inspected(bench: Bench) {
    let code = r"
import os, signal
for number in (9, 15, 19, 11):
    try: os.kill(1, number)
    except PermissionError: pass
for name in ('mem', 'environ', 'fd/0', 'fd', 'maps', 'cwd'):
    try:
        path = f'/proc/1/{name}'
        os.listdir(path) if name in ('fd', 'cwd') else open(path, 'rb').read(1)
        print('reached', name)
    except OSError: pass
print('done')
";
    let sandbox = bench.sandbox().await;
    assert_eq!(text(&python(&sandbox, code).await.stdout), "done\n");
    assert_eq!(text(&shell(&sandbox, "echo there").await.stdout), "there\n");
}

/// A program can read the file of its own code, but not change, replace or delete it.
pub(super) async fn code_file_cannot_be_changed_by_the_program(bench: Bench) {
    let code = r"
import os, shutil
path = '/tmp/code.py'
def attempt(name, act):
    try:
        act()
        print('possible:', name)
    except OSError: pass
attempt('write', lambda: open(path, 'w'))
attempt('append', lambda: open(path, 'a'))
attempt('write again', lambda: open(path, 'r+'))
attempt('truncate', lambda: os.truncate(path, 0))
attempt('chmod', lambda: os.chmod(path, 0o666))
attempt('chown', lambda: os.chown(path, os.getuid(), os.getgid()))
attempt('delete', lambda: os.unlink(path))
attempt('rename', lambda: os.rename(path, '/tmp/other.py'))
open('/tmp/new.py', 'w').write('pass')
attempt('replace', lambda: os.replace('/tmp/new.py', path))
attempt('rename the folder', lambda: os.rename('/tmp', '/workspace/tmp'))
attempt('extend', lambda: os.setxattr(path, 'user.x', b'y'))
print(open(path).read() == open(__file__).read(), os.path.exists('/tmp/new.py'))
";
    let sandbox = bench.sandbox().await;
    let done = python(&sandbox, code).await;
    assert_eq!(text(&done.stdout), "True True\n", "{}", text(&done.stderr));
    // The host can still replace the code.
    assert_eq!(text(&python(&sandbox, "print('next')").await.stdout), "next\n");
    assert_eq!(sandbox.read("/tmp/code.py", 100).await.unwrap(), b"print('next')");
}

/// An earlier program has created a symbolic link at the path of the code file. Writing new code replaces the link and
/// leaves its target unchanged.
pub(super) async fn code_file_replaces_a_link_that_a_program_planted_at_its_path(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let script = "echo theirs > /workspace/target; ln -sf /workspace/target /tmp/code.py; true";
    assert!(shell(&sandbox, script).await.outcome.success());
    assert_eq!(text(&python(&sandbox, "print('ours')").await.stdout), "ours\n");
    assert_eq!(text(&sandbox.read("/workspace/target", 100).await.unwrap()), "theirs\n");
}
