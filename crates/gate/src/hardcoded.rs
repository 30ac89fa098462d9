//! Finds paths in added lines that exist on one machine only.
//!
//! | paths | rule | outcome |
//! |---|---|---|
//! | home folders, `/run/user/…`, mailboxes and crontabs of a user | `home-folder` | rejected |
//! | mounted disks: `/mnt/…`, `/media/…`, `/Volumes/…`, `/run/media/…` | `mount-point` | rejected |
//! | Windows drives, network shares, `file:///` URLs | `windows-drive`, `network-share`, `file-url` | rejected |
//! | temporary folders, but not in tests and documents | `temp-folder` | rejected |
//! | `/srv/…`, `/data/…`, `/opt/<vendor>/…`, `/var/lib/…`, `/nix/store/…`, but not in tests and documents | `server-folder` | a reviewer decides |
//!
//! Accepted are paths that every system has (`/etc`, `/usr/bin/env`, `/dev/null`, `/proc/self`, package databases
//! below `/var/lib`), paths resolved at run time (`$HOME`, `~/`, `%TEMP%`) and paths filled in by a template
//! (`/home/<user>/`, `/home/{name}/`). Folders inside the image in a Dockerfile and inside the containers in a Compose
//! file are accepted; the host side of a volume is not.
//!
//! Placeholder names, such as `/home/user/` or `/mnt/disk/`, are accepted in comments but not in code.

use std::sync::LazyLock;

use regex::Regex;

use crate::file_kind::FileKind;
use crate::pattern::{InvalidPattern, among, compile};

/// Comment that allows a path on its line; the path is still reported.
pub const ALLOWED: &str = "assize: allow-path";

/// Characters of a path that are shown.
const MAX_SHOWN: usize = 80;
/// Paths checked per line.
const MAX_PATHS: usize = 200;

/// A machine-specific path found in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachinePath {
    /// Rule name, such as `home-folder`.
    pub rule: &'static str,
    /// Description of the kind of path.
    pub what: &'static str,
    /// The path, or its beginning.
    pub found: String,
    /// Whether a comment on the line allows the path.
    pub allowed: bool,
    /// The path may be legitimate, so a reviewer decides.
    pub doubtful: bool,
}

#[derive(Debug)]
struct Rule {
    id: &'static str,
    what: &'static str,
    /// The first group is the path; a second group is a name in it.
    pattern: Regex,
}

/// Finds machine-specific paths.
#[derive(Debug)]
pub struct PathScanner {
    /// If two rules match at the same position, the first one applies.
    rules: Vec<Rule>,
    /// Web addresses, whose paths are not file paths.
    address: Regex,
    /// Text before a web route or an XPath.
    route: Regex,
    comment: Regex,
    end: Regex,
    /// Files that web pages load: `/media/logo.png` is a URL path.
    asset: Regex,
    /// Text before a URL path that may begin with `/media` or `/data`.
    page: Regex,
    /// A call that opens or changes a file, up to its path.
    opens_file: Regex,
    /// Text before a host path in a Compose file: the beginning of a list item, or a key.
    item: Regex,
    host_key: Regex,
}

/// Text that may precede a path; after anything else, the match is the rest of a longer path. `:///` precedes the path
/// of a database (`sqlite:////srv/app.db`), `:-` the default of a variable.
const BEFORE: &str = r#"(?:^|[\s"'`=(\[,:;<>|@!]|-[ILo]|:-|:///)"#;

const SERVER_FOLDER: &str = "server-folder";

/// Text of the rules.
pub(crate) const DATA: &str = include_str!("../data/machine_paths.txt");

/// Folders that a package manager creates on every machine that has it.
const EVERY_MACHINE: &str = "/home/linuxbrew/ /opt/homebrew/ /opt/local/ /var/lib/apt/ \
    /var/lib/dbus/ /var/lib/dpkg/ /var/lib/pacman/ /var/lib/rpm/ /var/lib/systemd/";

static SCANNER: LazyLock<Result<PathScanner, InvalidPattern>> =
    LazyLock::new(|| PathScanner::compile(DATA));

/// Whether a rule does not apply to files of a kind.
fn is_exempt(kind: FileKind, rule: &str) -> bool {
    match kind {
        FileKind::Code | FileKind::Config | FileKind::Translation => false,
        FileKind::Test | FileKind::Prose => matches!(rule, "temp-folder" | SERVER_FOLDER),
        FileKind::Container | FileKind::Compose => {
            matches!(rule, "temp-folder" | "home-folder" | "mount-point" | SERVER_FOLDER)
        }
    }
}

impl PathScanner {
    /// Returns the shared scanner with all rules.
    pub fn get() -> Result<&'static PathScanner, InvalidPattern> {
        SCANNER.as_ref().map_err(Clone::clone)
    }

    fn compile(rules: &'static str) -> Result<PathScanner, InvalidPattern> {
        let rule = |line: &'static str| {
            let [id, what, pattern] = line.splitn(3, "  ").collect::<Vec<_>>()[..] else {
                return Err(InvalidPattern::new(line, &"invalid rule"));
            };
            let pattern = compile(id, &format!("{BEFORE}({pattern})"))?;
            Ok(Rule { id, what, pattern })
        };
        let rules = rules.lines().filter(|line| !line.starts_with('#'));
        Ok(PathScanner {
            rules: rules.map(rule).collect::<Result<_, _>>()?,
            address: compile("web address", r#"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>`]*"#)?,
            route: compile(
                "web route",
                r"(?x) \b(?i:href|routes?|router|routerlink|navigate|redirect\w*|pathname|fetch|axios|urls?|xpath|findall)\b
                  | \bselect\w*Nodes?\b | <Route | \b(?:app|api|client|http|requests)\.(?:get|post|put|patch|delete|use)\(
                  | @(?:Get|Post|Put|Patch|Delete|Request)Mapping | \b(?:GET|POST|PUT|PATCH|DELETE|HEAD)\s+/ | [Ll]ocation: | <\w[^>]*\bto=",
            )?,
            comment: compile("comment", r"^\s*(?:#|//|/\*|\*|--|<!--|;|>|\||-\s|\d+\.\s)")?,
            end: compile("end of a path", r#"[\s"'`<>|()\[\],;]"#)?,
            page: compile("web page", r"<\w[^>]*\bsrc\s*=|(?i:_urls?)\b")?,
            opens_file: compile(
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

    /// Finds machine-specific paths in one line.
    pub fn in_line(&self, line: &str, kind: FileKind) -> Vec<MachinePath> {
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
            // In a Compose file, a dash begins a list item.
            FileKind::Compose => line.trim_start().starts_with('#'),
            _ => self.comment.is_match(line),
        };
        let allowed = line.contains(ALLOWED);
        let mut found: Vec<MachinePath> = Vec::new();
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
                if seen.len() == MAX_PATHS {
                    break;
                }
                let end =
                    self.end.find(&line[start..]).map_or(line.len(), |end| start + end.start());
                let path = &line[start..end];
                seen.push(start..end);
                let before = before_path(line, start);
                let exempt = is_exempt(kind, id)
                    && !(kind == FileKind::Compose && self.is_of_host(id, &line[..start], path));
                if self.is_accepted(before, path, name, comment) || exempt {
                    continue;
                }
                found.push(MachinePath {
                    rule: id,
                    what,
                    found: path.chars().take(MAX_SHOWN).collect(),
                    allowed,
                    doubtful: *id == SERVER_FOLDER,
                });
            }
        }
        found
    }

    /// Whether a home folder or mount point in a Compose file is on the host: the first part of a volume
    /// (`- /home/ann/data:/data`), or the value of a key such as `source`.
    fn is_of_host(&self, rule: &str, before: &str, path: &str) -> bool {
        let volume = path.get(2..).is_some_and(|rest| rest.contains(':'));
        matches!(rule, "home-folder" | "mount-point")
            && (volume && self.item.is_match(before) || self.host_key.is_match(before))
    }

    /// Whether a path is accepted in its context: an example in a comment, a URL path, or on every machine.
    fn is_accepted(&self, before: &str, path: &str, name: Option<&str>, comment: bool) -> bool {
        const PLACEHOLDERS: &str = "user username you me name yourname your-name your_name \
            youruser someone server host hostname computer disk drive volume usb data storage \
            backup app myapp";
        const SYSTEM: [&str; 8] = ["etc", "usr", "dev", "proc", "sys", "bin", "run", "path"];
        let placeholder = name.is_some_and(|name| among(&name.to_lowercase(), PLACEHOLDERS));
        // No URL path begins like these.
        let disk = ["/mnt/", "/Volumes/", "/run/media/"].iter().any(|disk| path.starts_with(disk));
        let opens_file = self.opens_file.is_match(before);
        let web = path.starts_with('/') && !disk && !opens_file && self.route.is_match(before);
        let system = path
            .strip_prefix("file:///")
            .and_then(|path| path.split('/').next())
            .is_some_and(|first| SYSTEM.contains(&first));
        let everywhere = EVERY_MACHINE.split(' ').any(|folder| path.starts_with(folder));
        let served = !opens_file && (path.starts_with("/media/") || path.starts_with("/data/"));
        let page = served && (self.page.is_match(before) || self.asset.is_match(path));
        comment && placeholder || web || system || everywhere || page
    }
}

/// The statement before a path, including the first character of the path.
fn before_path(line: &str, start: usize) -> &str {
    let end = line[start..].chars().next().map_or(start, |first| start + first.len_utf8());
    let prefix = &line[..end];
    let from = prefix.rfind([';', '#']).map_or(0, |at| at + 1);
    &prefix[from..]
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
