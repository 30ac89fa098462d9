//! Contents of drafts that are difficult to parse, and paths that try to leave the workspace.

/// Returns text for a draft, with parts that could confuse a parser. The same `number` always gives the same text.
pub(crate) fn draft(number: usize) -> String {
    let mut dice = fastrand::Rng::with_seed(number as u64);
    const PIECES: [&str; 24] = [
        "plain words\n",
        "```\ncode\n```\n",
        "````md\n```\nnested\n```\n````\n",
        "~~~\n",
        "FILE: other.md\n",
        "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n",
        "<<<<<<< ours\n=======\n>>>>>>> theirs\n",
        "{\"content\": \"\\\"quoted\\\"\"}\n",
        "<tool_call>{}</tool_call>\n",
        "\\n is not a newline\n",
        "tab\tand  trailing  \n",
        "\n\n\n",
        "ünïcödé 日本語 🦀\n",
        "\u{feff}a mark in the middle\n",
        "windows line\r\n",
        "# heading\n",
        "    indented\n",
        "$VAR `backticks` 'quotes' \"double\"\n",
        "<script>alert(1)</script>\n",
        "</file>\n",
        "EOF\n",
        "\u{1b}[31mred\u{1b}[0m\n",
        "x = '''triple\n'''\n",
        "a very long line: loremipsumdolorsitametconsecteturadipiscingelitseddoeiusmodtempor\n",
    ];
    let mut text = String::new();
    for _ in 0..dice.usize(1..30) {
        text.push_str(PIECES[dice.usize(..PIECES.len())]);
    }
    // Some drafts end without a newline.
    if dice.bool() {
        text.push_str("no newline at the end");
    }
    text
}

/// Paths that try to leave the workspace or to reach hidden files in it. `outside` is the absolute path of a file
/// outside the workspace.
pub(crate) fn escape_paths(outside: &str) -> Vec<String> {
    let fixed = [
        "../outside",
        "leaf",
        "up/outside",
        "./../outside",
        "a/../../outside",
        "/etc/passwd",
        "/proc/self/environ",
        "/proc/self/root/etc/passwd",
        "/dev/stdin",
        "_handoff/TASK_CONTRACT.json",
        "_handoff/transition.ndjson",
        "_HANDOFF/drafts/x",
        "_handoff/drafts/../../../outside",
        ".git/hooks/pre-commit",
        ".env",
        "",
        ".",
        "..",
        "/",
        "a\0b",
        "up/../up/outside",
        "leaf/x",
        "//etc/passwd",
        "~/outside",
        "\u{2025}/outside",
        "..\\outside",
        "%2e%2e/outside",
        "..;/outside",
        "file:///etc/passwd",
    ];
    fixed.iter().map(|path| (*path).to_owned()).chain([outside.to_owned()]).collect()
}
