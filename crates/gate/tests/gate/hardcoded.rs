//! Tests that the path scanner finds machine-specific paths by the right rule, and accepts paths that every system has.

use assize_gate::FileKind;
use assize_gate::machine_paths::{MachinePath, PathScanner};

fn in_line(line: &str, kind: FileKind) -> Vec<MachinePath> {
    PathScanner::get().unwrap().in_line(line, kind)
}

fn rules(line: &str) -> Vec<&'static str> {
    in_line(line, FileKind::Code).into_iter().map(|path| path.rule).collect()
}

#[test]
fn machine_specific_path_is_found_by_the_rule_for_its_kind() {
    for (rule, lines) in [
        (
            "home-folder",
            &[
                r#"df = pd.read_csv("/home/ann/data/sales.csv")"#,
                "open('/home/ann/notes.txt')",
                r#"const root = "/Users/ann/projects/shop";"#,
                "BASE_DIR=/home/deploy/app",
                "export PATH=$PATH:/home/ann/bin",
                "cd /home/ann && make",
                "  - /home/ann/data:/data",
                "docker run -v /Users/ann/code:/app node",
                "gcc -I/home/ann/include main.c",
                r#"model_path = r"/home/ubuntu/models/v2.bin""#,
                r#"open("/home/user/data.csv")"#,
                r#"path: "/home/username/.config/acme""#,
                "key_file = /root/.ssh/id_ed25519",
                r#"COPY . "/root/app""#,
                "# see /home/ann/notes.txt for more",
                "// /Users/ann/dev/widgets/main.ts",
                r"path = 'C:\Users\Ann\Documents\a.xlsx'",
                r#"path = "C:\\Users\\Ann\\Desktop\\out.txt""#,
                r#"base = "C:/Users/ann/repo""#,
                r#"cd "c:\users\ann\source\repos""#,
                "cp /mnt/c/Users/ann/a.csv .",
                "cd /c/Users/ann/code",
                "home = Path('/home/ann')",
                "ExecStart=/home/ann/venv/bin/python run.py",
                r#"  "cwd": "/Users/ann/work","#,
                "#!/home/ann/venv/bin/python",
                "include_dirs = ['/usr/include', '/home/ann/lib/include']",
                "x = [/home/ann/a]",
                "`/home/ann/x`",
                "/export/home/ann/data",
                "sys.path.insert(0, '/home/ann/libs')",
                r#"os.chdir("/home/bob.smith/work")"#,
            ][..],
        ),
        (
            "temp-folder",
            &[
                r#"with open("/tmp/out.json", "w") as file:"#,
                "LOG=/tmp/build.log",
                "curl -o /tmp/a.zip https://acme.io/a.zip",
                "File.join('/tmp/cache', name)",
                "std::fs::write(\"/var/tmp/state\", b\"\")?;",
                r#"path = f"/tmp/{name}.png""#,
                "cp x /private/tmp/y",
                "/var/folders/zz/abc/T/x.png",
                r#"let p = "/private/var/folders/8k/q1/T/tmp.x";"#,
                r"out = 'C:\Temp\out.log'",
                r#"out = "C:\\temp\\out.log""#,
                r#"out = "C:/tmp/out.log""#,
                r"set DIR=C:\Windows\Temp",
                "socket: /tmp/mysql.sock",
                r#"url = "file:///tmp/index.html""#,
            ],
        ),
        (
            "windows-drive",
            &[
                r"path = 'D:\data\a.csv'",
                r#"path = "D:\\data\\a.csv""#,
                r#"path = "D:/data/a.csv""#,
                r#"include "E:/libs/x.h""#,
                r"set JAVA_HOME=C:\Program Files\Java\jdk-17",
                r#"exe = "C:\\Program Files\\Git\\bin\\git.exe""#,
                r"cd C:\tools\bin",
                r"start C:\new\app.exe",
                r"C:\projects\shop\run.bat",
                r#"["F:\\backup\\db"]"#,
                "ls /mnt/d/backup",
                r#"Path("c:/data")"#,
                r"copy a.txt D:\Backup",
            ],
        ),
        (
            "network-share",
            &[
                r"copy \\fileserver\public\a.txt .",
                r#"path = "\\\\fileserver\\public\\a.txt""#,
                r"net use Z: \\nas01\media",
                r"root = r'\\10.0.0.5\share'",
                r"\\nas.acme.local\backup$\db",
                r#"@"\\server\share\file.txt""#,
            ],
        ),
        (
            "file-url",
            &[
                "url = 'file:///home/ann/site/index.html'",
                r#"<a href="file:///C:/docs/a.html">"#,
                "open file:///Users/ann/a.pdf",
                "file:///data/warehouse/a.parquet",
                r#"repo = "file:///srv/git/acme.git""#,
            ],
        ),
    ] {
        for line in lines {
            assert_eq!(rules(line), [rule], "{line}");
        }
    }
}

#[test]
fn system_paths_and_paths_resolved_at_run_time_are_accepted() {
    for line in [
        "#!/usr/bin/env python3",
        "#!/bin/sh",
        "config = '/etc/acme/config.toml'",
        "exec > /dev/null 2>&1",
        "tail -f /var/log/syslog",
        "/usr/local/bin/acme",
        "WORKDIR /app",
        "COPY --from=build /src/target/release/acme /usr/bin/",
        "pid = /run/acme.pid",
        "/proc/self/status",
        "path = '~/data/a.csv'",
        "cat ~/.ssh/config",
        "cd ~ann/public_html",
        "open(\"$HOME/data/a.csv\")",
        "${HOME}/.cache/acme",
        "$TMPDIR/acme.sock",
        "tmp = os.path.join(tempfile.gettempdir(), 'a')",
        r"%TEMP%\acme.log",
        r"%USERPROFILE%\Documents",
        r"%APPDATA%\acme",
        r"$env:TEMP\a.txt",
        "Path.home() / 'data'",
        "https://example.com/home/user/x",
        "http://localhost:3000/home/ann/profile",
        "see https://acme.io/Users/ann/tmp/x",
        "s3://bucket/home/ann/data.csv",
        "git+ssh://git@acme.io/home/git/repo.git",
        "https://example.com/tmp/x",
        r#"<Route path="/home" element={<Home />} />"#,
        r#"<Route path="/home/about" element={<About />} />"#,
        r#"<Link href="/home/settings">Settings</Link>"#,
        r#"router.get("/home/news", news);"#,
        r#"app.get('/users/:id', show)"#,
        r#"app.get('/Users/:id', show)"#,
        r#"app.use("/tmp/upload", upload)"#,
        r#"navigate("/home/dashboard/main");"#,
        r#"@GetMapping("/home/list")"#,
        "GET /Users/2819c223 HTTP/1.1",
        r#"path: "/home""#,
        r#"path("/home/", views.home)"#,
        r#""/Users""#,
        r#""/Users/""#,
        "path = '/home/<user>/data'",
        "/home/$USER/data",
        "/home/${USER}/data",
        "f'/home/{user}/data'",
        "/home/%u/data",
        "/home/*/data",
        "/Users/<name>/Library",
        "/home/{{ ansible_user }}/app",
        "# e.g. /home/user/data",
        "// for example /home/you/.config",
        " * /Users/username/Library/Application Support",
        "- copy it to `/home/user/.config/acme`",
        r"# C:\Users\username\AppData",
        r"// such as \\server\share",
        "src/home/user/x.ts",
        "./tmp/cache",
        "../tmp/x",
        "tmp/cache/a",
        "target/tmp/out",
        "{base}/tmp/x",
        "$(pwd)/tmp/x",
        "mount -t tmpfs tmpfs /tmp",
        "if path.startswith('/tmp/'):",
        "TMPDIR=/tmp",
        r"re.compile(r'\d:\\w')",
        r#"print("A:\n")"#,
        r#"print("error:\n")"#,
        r#"raise ValueError("error:\n details")"#,
        r#"text = "Q:\nWhat is it?\nA:\n""#,
        r#"row = "A:\tfoo\tbar""#,
        "time = '12:/30'",
        "%H:/%M",
        "a ? b:/x/.test(c)",
        r"HKLM:\Software\Acme",
        r"HKEY_LOCAL_MACHINE\Software",
        "std::fs::read(path)",
        "http://C:80/x",
        r"(?i:\w+)",
        r"[a-z]:\\",
        r#""\\n\\t""#,
        r#""\\alpha\\beta""#,
        r#"r"\\b\w+\\b""#,
        r"\\.\pipe\docker_engine",
        r"\\?\C:",
        r"\textbf{a} \\ \hline",
        "file:///",
        "file://${path}",
        "f'file:///{path}'",
        "file:///etc/hosts",
        "// file:///path/to/file",
        r#"doc.xpath("/root/item[1]")"#,
        "eval \"$(/home/linuxbrew/.linuxbrew/bin/brew shellenv)\"",
        "root/app/x",
        "the /root of the tree",
        "s:/foo/bar/",
        "ratio a:/b",
    ] {
        assert_eq!(rules(line), [] as [&str; 0], "{line}");
    }
}

#[test]
fn temp_folders_in_test_files_are_accepted_and_paths_with_an_allow_comment_are_marked_as_allowed() {
    for line in ["open('/tmp/x')", r"'C:\Temp\x'", "file:///tmp/x", "/var/folders/a/b"] {
        assert_eq!(in_line(line, FileKind::Test), [], "{line}");
    }
    assert_eq!(in_line("open('/home/ann/x')", FileKind::Test).len(), 1);
    let found = in_line("open('/home/ann/x')  # assize: allow-path", FileKind::Code);
    assert!(found[0].allowed);
    assert_eq!(found[0].found, "/home/ann/x");
    let found = in_line(&format!("/home/ann/{}", "é".repeat(200)), FileKind::Code);
    assert_eq!((found.len(), found[0].found.chars().count()), (1, 80));
    let two = in_line("cp /home/ann/a D:/b", FileKind::Code);
    assert_eq!(two.len(), 2);
    assert!(!two[0].allowed);
}

#[test]
fn example_paths_in_prose_and_paths_inside_containers_are_accepted() {
    let prose = |line: &str| in_line(line, FileKind::Prose).len();
    assert_eq!(prose("Put it into /Users/you/projects, or write to /tmp/out.json."), 0);
    assert_eq!(prose("It is in /Users/ann/projects."), 1);
    assert_eq!(in_line("COPY . /home/app/src", FileKind::Container), []);
    assert_eq!(in_line("<Link to=\"/home/settings\">", FileKind::Code), []);
    // Words such as `fetch` or `url` elsewhere in the line do not make a file path count as a URL path.
    assert_eq!(
        in_line("rows = open(\"/home/alice/data.csv\")  # fetch rows", FileKind::Code).len(),
        1
    );
    assert_eq!(in_line("url = \"x\"; p = open(\"/home/alice/data.csv\")", FileKind::Code).len(), 1);
}
