//! File blocks in an answer: the older way, for models that call no tools.

/// A file that an answer proposes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileBlock {
    pub path: String,
    pub content: String,
}

/// A block that has no end, or may have ended too early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("where the block of `{0}` ends is not clear")]
pub struct NotClosed(String);

/// The file blocks of an answer: a line `FILE: path`, and the whole file between two fences after it.
///
/// # Errors
/// When one has no end: what was meant cannot be known.
pub fn file_blocks(answer: &str) -> Result<Vec<FileBlock>, NotClosed> {
    let mut blocks = Vec::new();
    let mut path: Option<String> = None;
    let mut open: Option<(String, String)> = None;
    for line in answer.split_inclusive('\n') {
        let bare = line.trim_end();
        if let Some((fence, content)) = &mut open {
            // A fence that is longer, or says more, belongs to the file.
            if bare != fence {
                content.push_str(line);
                continue;
            }
            if let (Some(path), Some((_, content))) = (path.take(), open.take()) {
                blocks.push(FileBlock { path, content });
            }
            continue;
        }
        let start = bare.trim_start();
        let mark = start.chars().next().unwrap_or(' ');
        let fence: String = start.chars().take_while(|c| *c == mark).collect();
        if matches!(mark, '`' | '~') && fence.len() >= 3 {
            match (&path, blocks.last()) {
                (Some(_), _) => open = Some((fence, String::new())),
                // The block before it may have ended too early, at a fence of its own file.
                (None, Some(FileBlock { path, .. })) => return Err(NotClosed(path.clone())),
                (None, None) => {}
            }
            continue;
        }
        let named = start.trim_matches(|c: char| "#*`_ ".contains(c));
        let rest = named.strip_prefix("FILE:").or_else(|| named.strip_prefix("File:"));
        if let Some(rest) = rest {
            path = Some(rest.trim_matches(|c: char| "*`\"' ".contains(c)).to_owned());
        }
    }
    if let (Some(path), Some(_)) = (path, open) {
        return Err(NotClosed(path));
    }
    blocks.retain(|block| !block.path.is_empty());
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn blocks_are_found_in_the_words_around_them() {
        let answer = "Here it is.\n```\nno name\n```\n\nFILE: src/a.py\n```python\nx = 1\n```\n\n**FILE: `b.md`**\n````md\n```\ncode\n```\n````\nFile: c\n~~~\ny\n~~~\nDone. ```not a file```\n";
        let block =
            |path: &str, content: &str| FileBlock { path: path.into(), content: content.into() };
        assert_eq!(
            file_blocks(answer).unwrap(),
            [block("src/a.py", "x = 1\n"), block("b.md", "```\ncode\n```\n"), block("c", "y\n")]
        );
        for none in ["", "FILE: a\n", "```\nx\n```", "FILE:\n```\nx\n```\n"] {
            assert_eq!(file_blocks(none).unwrap(), [], "{none}");
        }
        assert!(file_blocks("FILE: a\n```\nnever closed").is_err());
        // A fence of the file itself ends it too early: what was meant cannot be known.
        assert!(file_blocks("FILE: a.md\n```\n# A\n```sh\nmake\n```\nmore\n```\n").is_err());
        let indented = file_blocks("FILE: a.py\n```\n'''\n    ```\n'''\n```\n").unwrap();
        assert_eq!(indented[0].content, "'''\n    ```\n'''\n");
    }

    proptest! {
        #[test]
        fn whatever_a_file_holds_comes_out_of_its_block(content in "[a-z`~ \n#:]{0,200}") {
            let content = format!("{content}\n");
            let longest = content.lines().map(|line| line.trim().len()).max().unwrap_or(0).max(3);
            let fence = "`".repeat(longest + 1);
            let answer = format!("words\nFILE: a/b.md\n{fence}text\n{content}{fence}\nmore words\n");
            let blocks = file_blocks(&answer).unwrap();
            prop_assert_eq!(blocks.len(), 1);
            prop_assert_eq!(&blocks[0].content, &content);
        }

        #[test]
        fn no_answer_breaks_it(answer in "\\PC{0,400}") {
            let _ = file_blocks(&answer);
        }
    }
}
