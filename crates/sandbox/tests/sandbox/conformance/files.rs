//! Tests of the file operations that the host requests: write, read, list, remove.

use assize_sandbox::{FolderEntryKind, GuestFailureCause, SandboxError};

use crate::bench::{Bench, python, shell, text};

pub(super) async fn written_file_is_read_back_unchanged(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|number| (number % 251) as u8).collect();
    sandbox.write("/workspace/data.bin", &bytes).await.unwrap();
    assert!(sandbox.read("/workspace/data.bin", 2_000_000).await.unwrap() == bytes);
    let done = python(&sandbox, "print(sum(open('data.bin', 'rb').read()))").await;
    let sum: u64 = bytes.iter().map(|byte| u64::from(*byte)).sum();
    assert_eq!(text(&done.stdout).trim(), sum.to_string());
    sandbox.write("/tmp/empty", b"").await.unwrap();
    assert_eq!(sandbox.read("/tmp/empty", 10).await.unwrap(), b"");
}

pub(super) async fn write_creates_folders_and_replaces_files(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let path = "/workspace/logs/deep/i1.json";
    sandbox.write(path, b"a long first text").await.unwrap();
    sandbox.write(path, b"short").await.unwrap();
    assert_eq!(sandbox.read(path, 100).await.unwrap(), b"short");
    // Programs can change files that the host wrote, except read-only ones.
    sandbox.write_with_mode("/workspace/given", b"x", 0o444).await.unwrap();
    let script = format!(
        "echo more >> {path} && ls -l /workspace/given | cut -c1-10; echo y > /workspace/given"
    );
    let done = shell(&sandbox, &script).await;
    assert_eq!(text(&done.stdout), "-r--r--r--\n");
    assert!(text(&done.stderr).contains("given"), "{}", text(&done.stderr));
    assert_eq!(sandbox.read(path, 100).await.unwrap(), b"shortmore\n");
}

pub(super) async fn read_error_reports_its_cause(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let cause = |result: Result<Vec<u8>, SandboxError>| result.unwrap_err().cause();
    assert_eq!(cause(sandbox.read("/workspace/none", 10).await), Some(GuestFailureCause::NotFound));
    assert_eq!(cause(sandbox.read("/workspace", 10).await), Some(GuestFailureCause::WrongKind));
    sandbox.write("/tmp/long", &[0; 1000]).await.unwrap();
    let long = sandbox.read("/tmp/long", 999).await.unwrap_err();
    assert_eq!(long.to_string(), "`/tmp/long` is too large: 1000 bytes (limit 999)");
    shell(&sandbox, "chmod 000 /tmp/long").await;
    assert_eq!(cause(sandbox.read("/tmp/long", 1000).await), Some(GuestFailureCause::Denied));
}

pub(super) async fn read_refuses_special_files(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let script = "cd /workspace; mkfifo pipe; ln -s /dev/zero zero; ln -s loop loop; ln -s /proc/self/environ own; \
                  ln -s /proc/1/mem memory; ln -s /etc/passwd plain";
    assert!(shell(&sandbox, script).await.outcome.success());
    for name in ["pipe", "zero", "loop", "own", "memory"] {
        let error = sandbox.read(&format!("/workspace/{name}"), 1 << 20).await.unwrap_err();
        assert!(error.cause().is_some(), "{name}: {error}");
    }
    // A link to a file that programs can read is followed.
    assert!(sandbox.read("/workspace/plain", 1 << 20).await.is_ok());
}

pub(super) async fn write_refuses_special_files_and_magic_links(bench: Bench) {
    let sandbox = bench.sandbox().await;
    let script = "cd /workspace; ln -s /proc/self/fd/1 out; ln -s /proc/1/oom_score_adj score; mkfifo pipe; \
                  ln -s /usr/planted planted; ln -s /proc/self/cwd/made here";
    assert!(shell(&sandbox, script).await.outcome.success());
    for name in ["out", "score", "pipe", "planted", "here"] {
        let error = sandbox.write(&format!("/workspace/{name}"), b"x").await.unwrap_err();
        assert!(error.cause().is_some(), "{name}: {error}");
    }
    assert_eq!(text(&shell(&sandbox, "echo fine").await.stdout), "fine\n");
}

pub(super) async fn folder_listing_reports_entry_kinds_and_rejects_too_large_folders(bench: Bench) {
    let sandbox = bench.sandbox().await;
    sandbox.write("/workspace/b.txt", b"four").await.unwrap();
    shell(
        &sandbox,
        "cd /workspace; mkdir a; ln -s b.txt c; mkfifo d; touch \"$(printf 'e\\377')\"",
    )
    .await;
    let entries = sandbox.list("/workspace").await.unwrap();
    let listed: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.kind)).collect();
    let kinds = [
        FolderEntryKind::Folder,
        FolderEntryKind::File,
        FolderEntryKind::Link,
        FolderEntryKind::Other,
        FolderEntryKind::File,
    ];
    assert_eq!(
        listed,
        ["a", "b.txt", "c", "d", "e\u{fffd}"].into_iter().zip(kinds).collect::<Vec<_>>()
    );
    assert_eq!(entries[1].size, 4);
    assert_eq!(sandbox.list("/none").await.unwrap_err().cause(), Some(GuestFailureCause::NotFound));
    assert_eq!(
        sandbox.list("/workspace/b.txt").await.unwrap_err().cause(),
        Some(GuestFailureCause::WrongKind)
    );
    shell(&sandbox, "mkdir /tmp/many; cd /tmp/many; for i in $(seq 4001); do : > $i; done").await;
    assert_eq!(
        sandbox.list("/tmp/many").await.unwrap_err().cause(),
        Some(GuestFailureCause::TooLarge)
    );
    let long = "mkdir /tmp/long; cd /tmp/long; zeros=$(printf %0240d 0); for i in $(seq 1000 4990); do : > $i$zeros; done";
    assert!(shell(&sandbox, long).await.outcome.success());
    assert_eq!(
        sandbox.list("/tmp/long").await.unwrap_err().cause(),
        Some(GuestFailureCause::TooLarge)
    );
}

pub(super) async fn remove_deletes_files_and_folders(bench: Bench) {
    let sandbox = bench.sandbox().await;
    sandbox.write("/workspace/a/b/c", b"x").await.unwrap();
    sandbox.write("/workspace/d", b"x").await.unwrap();
    shell(&sandbox, "ln -s /usr /workspace/a/system").await;
    sandbox.remove("/workspace/a").await.unwrap();
    sandbox.remove("/workspace/d").await.unwrap();
    assert_eq!(sandbox.list("/workspace").await.unwrap(), []);
    assert_eq!(
        sandbox.remove("/workspace/d").await.unwrap_err().cause(),
        Some(GuestFailureCause::NotFound)
    );
    assert!(sandbox.remove("/usr/bin").await.is_err());
    assert!(
        sandbox.list("/usr/bin").await.is_ok()
            || sandbox.read("/usr/bin/env", 1 << 24).await.is_ok()
    );
}

pub(super) async fn relative_and_parent_paths_are_rejected(bench: Bench) {
    let sandbox = bench.sandbox().await;
    for path in ["relative", "", "/workspace/../usr/x", "/..", "/tmp/a\0b"] {
        let invalid = Some(GuestFailureCause::Invalid);
        assert_eq!(sandbox.write(path, b"x").await.unwrap_err().cause(), invalid, "{path:?}");
        assert_eq!(sandbox.read(path, 10).await.unwrap_err().cause(), invalid, "{path:?}");
        assert_eq!(sandbox.list(path).await.unwrap_err().cause(), invalid, "{path:?}");
        assert_eq!(sandbox.remove(path).await.unwrap_err().cause(), invalid, "{path:?}");
    }
}
