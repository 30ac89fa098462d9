//! Paths in added lines that exist on one machine only.
//!
//! | paths | rule | outcome |
//! |---|---|---|
//! | home folders, `/run/user/…`, mailboxes and crontabs of a user | `home-folder` | rejected |
//! | mounted disks: `/mnt/…`, `/media/…`, `/Volumes/…`, `/run/media/…` | `mount-point` | rejected |
//! | drives of Windows, network shares, `file:///` addresses | `windows-drive`, `network-share`, `file-url` | rejected |
//! | temporary folders, but not in tests and documents | `temp-folder` | rejected |
//! | `/srv/…`, `/data/…`, `/opt/<vendor>/…`, `/var/lib/…`, `/nix/store/…`, but not in tests and documents | `server-folder` | a reviewer decides |
//!
//! Accepted are paths that every system has (`/etc`, `/usr/bin/env`, `/dev/null`, `/proc/self`, package databases
//! below `/var/lib`), paths that a program looks up (`$HOME`, `~/`, `%TEMP%`) and paths that a template fills in
//! (`/home/<user>/`, `/home/{name}/`). The folders of an image in a Dockerfile, and those of the containers in a Compose
//! file, are their own; the host's side of a volume in a Compose file is not.
//!
//! Placeholder names, such as `/home/user/` or `/mnt/disk/`, are fine in a comment; in a program they are opened.

use std::sync::LazyLock;

use regex::Regex;

use crate::file_kind::FileKind;
use crate::pattern::{BadPattern, among, compile};

/// What a line must say to keep a path in it; that it does is itself told.
pub const ALLOWED: &str = "assize: allow-path";

/// How much of a path is shown, in characters.
const SHOWN: usize = 80;
/// How many paths of one line are checked.
const MOST: usize = 200;

/// A path in a line that should not be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HardCoded {
    /// The rule, such as `home-folder`.
    pub rule: &'static str,
    /// What it is, in words.
    pub what: &'static str,
    /// The path, or its beginning.
    pub found: String,
    /// The line says that it may stay.
    pub allowed: bool,
    /// The path may be legitimate: a reviewer decides.
    pub doubtful: bool,
}

#[derive(Debug)]
struct Rule {
    id: &'static str,
    what: &'static str,
    /// The path begins with the first group; a second one is a name.
    pattern: Regex,
}

/// Finds the paths of one machine in lines.
#[derive(Debug)]
pub struct PathScanner {
    /// Of two rules that match at one place, the first one counts.
    rules: Vec<Rule>,
    /// Addresses in the web, whose paths are their own affair.
    address: Regex,
    /// What stands before a web address or a place in a document.
    elsewhere: Regex,
    comment: Regex,
    end: Regex,
    /// Files that web pages load: `/media/logo.png` is an address.
    asset: Regex,
    /// What stands before a web address that may begin with `/media` or `/data`.
    page: Regex,
    /// A call that opens or changes a file, up to its path.
    opened: Regex,
    /// What stands before a path of the host in a Compose file: the beginning of an item, or a key.
    item: Regex,
    host_key: Regex,
}

/// What may stand before a path; after anything else it is the rest of one.
/// `:///` begins the path of a database (`sqlite:////srv/app.db`), `:-` the default of a variable.
const BEFORE: &str = r#"(?:^|[\s"'`=(\[,:;<>|@!]|-[ILo]|:-|:///)"#;

const SERVER_FOLDER: &str = "server-folder";

/// The rules as they are written.
const DATA: &str = include_str!("../data/machine_paths.txt");

/// Folders below these that a package manager keeps on every machine that has it.
const EVERY_MACHINE: &str = "/home/linuxbrew/ /opt/homebrew/ /opt/local/ /var/lib/apt/ \
    /var/lib/dbus/ /var/lib/dpkg/ /var/lib/pacman/ /var/lib/rpm/ /var/lib/systemd/";

static SCANNER: LazyLock<Result<PathScanner, BadPattern>> =
    LazyLock::new(|| PathScanner::compile(DATA));

/// Whether files of a kind may have what a rule finds.
fn may_have(kind: FileKind, rule: &str) -> bool {
    match kind {
        FileKind::Code | FileKind::Config | FileKind::Translation => false,
        FileKind::Test | FileKind::Prose => matches!(rule, "temp-folder" | SERVER_FOLDER),
        FileKind::Container | FileKind::Compose => {
            matches!(rule, "temp-folder" | "home-folder" | "mount-point" | SERVER_FOLDER)
        }
    }
}

impl PathScanner {
    /// The scanner with all rules.
    pub fn get() -> Result<&'static PathScanner, BadPattern> {
        SCANNER.as_ref().map_err(Clone::clone)
    }

    fn compile(rules: &'static str) -> Result<PathScanner, BadPattern> {
        let rule = |line: &'static str| {
            let [id, what, pattern] = line.splitn(3, "  ").collect::<Vec<_>>()[..] else {
                return Err(BadPattern::new(line, &"invalid rule"));
            };
            let pattern = compile(id, &format!("{BEFORE}({pattern})"))?;
            Ok(Rule { id, what, pattern })
        };
        let rules = rules.lines().filter(|line| !line.starts_with('#'));
        Ok(PathScanner {
            rules: rules.map(rule).collect::<Result<_, _>>()?,
            address: compile("web address", r#"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>`]*"#)?,
            elsewhere: compile(
                "web route",
                r"(?x) \b(?i:href|routes?|router|routerlink|navigate|redirect\w*|pathname|fetch|axios|urls?|xpath|findall)\b
                  | \bselect\w*Nodes?\b | <Route | \b(?:app|api|client|http|requests)\.(?:get|post|put|patch|delete|use)\(
                  | @(?:Get|Post|Put|Patch|Delete|Request)Mapping | \b(?:GET|POST|PUT|PATCH|DELETE|HEAD)\s+/ | [Ll]ocation: | <\w[^>]*\bto=",
            )?,
            comment: compile("comment", r"^\s*(?:#|//|/\*|\*|--|<!--|;|>|\||-\s|\d+\.\s)")?,
            end: compile("end of a path", r#"[\s"'`<>|()\[\],;]"#)?,
            page: compile("web page", r"<\w[^>]*\bsrc\s*=|(?i:_urls?)\b")?,
            opened: compile(
                "call with a path",
                r#"(?x) \b(?i:open|path|file|copy\w*|move|rename|read\w*|write\w*|load\w*|save\w*|dump|chdir|listdir|glob|walk
                  |mkdirs?|makedirs|exists|stat|remove|unlink|rm\w*|join) \( [^()]{0,80} ["'`] / $"#,
            )?,
            item: compile("item of a list", r#"(?:^|[\[,])\s*(?:-\s+)?["']?$"#)?,
            host_key: compile(
                "key of a host path",
                r#"\b(?:source|src|device|context|build|env_file|file|path)["']?\s*[:=]\s*["']?$"#,
            )?,
            asset: compile(
                "web asset",
                r"^/media/\S*\.(?i:png|jpe?g|gif|svg|webp|avif|ico|css|m?js|mp[34]|webm|woff2?|ttf)$",
            )?,
        })
    }

    /// The paths in one line.
    pub fn in_line(&self, line: &str, kind: FileKind) -> Vec<HardCoded> {
        let addresses: Vec<_> = self
            .address
            .find_iter(line)
            .filter(|address| {
                !address.as_str().starts_with("file:") && !address.as_str().contains(":////")
            })
            .map(|address| address.range())
            .collect();
        let comment = match kind {
            FileKind::Prose => true,
            // A dash begins an item there.
            FileKind::Compose => line.trim_start().starts_with('#'),
            _ => self.comment.is_match(line),
        };
        let allowed = line.contains(ALLOWED);
        let mut found: Vec<HardCoded> = Vec::new();
        let mut seen: Vec<std::ops::Range<usize>> = Vec::new();
        for Rule { id, what, pattern } in &self.rules {
            for captures in pattern.captures_iter(line) {
                let Some(start) = captures.get(1).map(|path| path.start()) else { continue };
                let name = captures.get(2).map(|name| name.as_str());
                let before = addresses.partition_point(|address| address.start <= start);
                let in_address = before > 0 && addresses[before - 1].contains(&start);
                if in_address || seen.iter().any(|path| path.contains(&start)) {
                    continue;
                }
                if seen.len() == MOST {
                    break;
                }
                let end =
                    self.end.find(&line[start..]).map_or(line.len(), |end| start + end.start());
                let path = &line[start..end];
                seen.push(start..end);
                let before = before_path(line, start);
                let own = may_have(kind, id)
                    && !(kind == FileKind::Compose && self.is_of_host(id, &line[..start], path));
                if self.is_fine(before, path, name, comment) || own {
                    continue;
                }
                found.push(HardCoded {
                    rule: id,
                    what,
                    found: path.chars().take(SHOWN).collect(),
                    allowed,
                    doubtful: *id == SERVER_FOLDER,
                });
            }
        }
        found
    }

    /// Whether a home folder or mount point in a Compose file is the host's: the first part of a volume
    /// (`- /home/ann/data:/data`), or the value of a key such as `source`.
    fn is_of_host(&self, rule: &str, before: &str, path: &str) -> bool {
        let volume = path.get(2..).is_some_and(|rest| rest.contains(':'));
        matches!(rule, "home-folder" | "mount-point")
            && (volume && self.item.is_match(before) || self.host_key.is_match(before))
    }

    /// Whether a path is fine where it stands: an example in a comment, a web address, or on every machine.
    fn is_fine(&self, before: &str, path: &str, name: Option<&str>, comment: bool) -> bool {
        const PLACEHOLDERS: &str = "user username you me name yourname your-name your_name \
            youruser someone server host hostname computer disk drive volume usb data storage \
            backup app myapp";
        const SYSTEM: [&str; 8] = ["etc", "usr", "dev", "proc", "sys", "bin", "run", "path"];
        let placeholder = name.is_some_and(|name| among(&name.to_lowercase(), PLACEHOLDERS));
        // No web address begins like these.
        let disk = ["/mnt/", "/Volumes/", "/run/media/"].iter().any(|disk| path.starts_with(disk));
        let opened = self.opened.is_match(before);
        let web = path.starts_with('/') && !disk && !opened && self.elsewhere.is_match(before);
        let system = path
            .strip_prefix("file:///")
            .and_then(|path| path.split('/').next())
            .is_some_and(|first| SYSTEM.contains(&first));
        let everywhere = EVERY_MACHINE.split(' ').any(|folder| path.starts_with(folder));
        let served = !opened && (path.starts_with("/media/") || path.starts_with("/data/"));
        let page = served && (self.page.is_match(before) || self.asset.is_match(path));
        comment && placeholder || web || system || everywhere || page
    }
}

/// The statement up to a path, with the path's first character.
fn before_path(line: &str, start: usize) -> &str {
    let end = line[start..].chars().next().map_or(start, |first| start + first.len_utf8());
    let said = &line[..end];
    let from = said.rfind([';', '#']).map_or(0, |at| at + 1);
    &said[from..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scanner_with_a_broken_rule_is_an_error() {
        for rule in ["mount-point  a mounted disk  /mnt/(", "mount-point"] {
            let error = PathScanner::compile(rule).unwrap_err();
            assert_eq!(error.name, "mount-point");
        }
    }
}
