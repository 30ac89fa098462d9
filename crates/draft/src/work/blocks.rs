//! Parses file blocks: the files that a model without tools writes in the text of its answer.

/// A file that a model proposes in the text of its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileBlock {
    pub path: String,
    pub content: String,
}

/// Error for a file block whose end is missing or ambiguous.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the end of the file block of `{0}` is ambiguous or missing")]
pub struct UnclosedBlock(String);

/// Parses the file blocks of an answer. A file block is a line `FILE: path`, followed by the whole file between two
/// Markdown code fences.
///
/// # Errors
/// If the end of a file block is missing or ambiguous.
pub fn file_blocks(answer: &str) -> Result<Vec<FileBlock>, UnclosedBlock> {
    let mut blocks = Vec::new();
    let mut path: Option<String> = None;
    let mut open: Option<(String, String)> = None;
    for line in answer.split_inclusive('\n') {
        let bare = line.trim_end();
        if let Some((fence, content)) = &mut open {
            // Only a line that equals the opening fence ends the block. All other lines belong to the file.
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
                // A fence without a path: the previous block may have ended too early, at a fence inside its file.
                (None, Some(FileBlock { path, .. })) => return Err(UnclosedBlock(path.clone())),
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
        return Err(UnclosedBlock(path));
    }
    blocks.retain(|block| !block.path.is_empty());
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn file_blocks_are_found_among_other_text() {
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
        // A fence inside the file ends the block too early, so the end of the block is ambiguous.
        assert!(file_blocks("FILE: a.md\n```\n# A\n```sh\nmake\n```\nmore\n```\n").is_err());
        let indented = file_blocks("FILE: a.py\n```\n'''\n    ```\n'''\n```\n").unwrap();
        assert_eq!(indented[0].content, "'''\n    ```\n'''\n");
    }

    proptest! {
        #[test]
        fn file_block_parsing_preserves_any_content(content in "[a-z`~ \n#:]{0,200}") {
            let content = format!("{content}\n");
            let longest = content.lines().map(|line| line.trim().len()).max().unwrap_or(0).max(3);
            let fence = "`".repeat(longest + 1);
            let answer = format!("words\nFILE: a/b.md\n{fence}text\n{content}{fence}\nmore words\n");
            let blocks = file_blocks(&answer).unwrap();
            prop_assert_eq!(blocks.len(), 1);
            prop_assert_eq!(&blocks[0].content, &content);
        }

        #[test]
        fn file_block_parsing_never_panics(answer in "\\PC{0,400}") {
            let _ = file_blocks(&answer);
        }
    }
}
