//! Scanner for machine-specific paths: paths in added lines that exist on one machine only.
//!
//! | paths | rule | outcome |
//! |---|---|---|
//! | home folders, `/run/user/…`, mailboxes and crontabs of a user | `home-folder` | rejected |
//! | mounted disks: `/mnt/…`, `/media/…`, `/Volumes/…`, `/run/media/…` | `mount-point` | rejected |
//! | Windows drives, network shares, `file:///` URLs | `windows-drive`, `network-share`, `file-url` | rejected |
//! | temporary folders, but not in tests and documents | `temp-folder` | rejected |
//! | `/srv/…`, `/data/…`, `/opt/<vendor>/…`, `/var/lib/…`, `/nix/store/…`, but not in tests and documents | `server-folder` | a reviewer decides |
//!
//! The scanner accepts paths that every system has (`/etc`, `/usr/bin/env`, `/dev/null`, `/proc/self`, package
//! databases below `/var/lib`), paths that are resolved at run time (`$HOME`, `~/`, `%TEMP%`) and paths with a
//! placeholder that a template fills in (`/home/<user>/`, `/home/{name}/`). It accepts paths inside the image in a
//! Dockerfile and inside the containers in a Compose file, but not the host paths of volumes.
//!
//! Placeholder names, such as `/home/user/` or `/mnt/disk/`, are accepted in comments but not in code.

use std::sync::LazyLock;

use regex::Regex;

use crate::file_kind::FileKind;
use crate::pattern::{InvalidPattern, among, compile};

/// Comment that allows the machine-specific paths on its line. The gate still reports them, and a reviewer decides.
pub const ALLOW_COMMENT: &str = "assize: allow-path";

/// Number of characters after which a path in a finding is truncated.
const MAX_SHOWN: usize = 80;
/// Maximum number of paths that are checked per line.
const MAX_PATHS: usize = 200;

/// A machine-specific path found in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachinePath {
    /// Rule name, such as `home-folder`.
    pub rule: &'static str,
    /// Description of the kind of path, such as `a temporary folder`.
    pub what: &'static str,
    /// The path, truncated if it is long.
    pub found: String,
    /// Whether a comment on the line allows the path.
    pub allowed: bool,
    /// Whether the path may be correct, so that a reviewer must decide.
    pub needs_review: bool,
}

#[derive(Debug)]
struct Rule {
    id: &'static str,
    what: &'static str,
    /// Regular expression of the path. Group 1 is the path. Group 2, if the expression has one, is a name in the path
    /// that may be a placeholder, such as `user` in `/home/user/`.
    pattern: Regex,
}

/// Scanner that finds machine-specific paths in lines of text.
#[derive(Debug)]
pub struct PathScanner {
    /// Rules for kinds of paths. If two rules match at the same position, the first rule applies.
    rules: Vec<Rule>,
    /// Matches web addresses. The paths in them are not file paths.
    address: Regex,
    /// Matches the text before a web route or an XPath, which are not file paths.
    route: Regex,
    /// Matches lines that begin like a comment, or like a list item of a document.
    comment: Regex,
    /// Matches a character that cannot be part of a path. A path ends before this character.
    end: Regex,
    /// Matches URL paths of files that web pages load, such as `/media/logo.png`.
    asset: Regex,
    /// Matches the text before a path if this text shows that `/media/…` or `/data/…` is a URL path: an HTML attribute
    /// `src`, or a name that ends with `_url`.
    page: Regex,
    /// Matches the start of a call that opens or changes a file, from the function name to the first character of the
    /// path.
    opens_file: Regex,
    /// In a Compose file, matches the text before a host path if the path is a list item.
    item: Regex,
    /// In a Compose file, matches the text before a host path if the path is the value of a key, such as `source`.
    host_key: Regex,
}

/// Matches the text that may precede a path. After any other text, a match would be the end of a longer path. `:///`
/// precedes the path of a database (`sqlite:////srv/app.db`), and `:-` precedes the default value of a shell variable.
const BEFORE: &str = r#"(?:^|[\s"'`=(\[,:;<>|@!]|-[ILo]|:-|:///)"#;

/// Name of the rule for folders that exist only on some machines. Its findings are escalated to a reviewer.
const SERVER_FOLDER: &str = "server-folder";

/// Text of the built-in rules for machine-specific paths.
pub(crate) const DATA: &str = include_str!("../data/machine_paths.txt");

/// Folders that a package manager creates on every machine where the package manager is installed.
const EVERY_MACHINE: &str = "/home/linuxbrew/ /opt/homebrew/ /opt/local/ /var/lib/apt/ \
    /var/lib/dbus/ /var/lib/dpkg/ /var/lib/pacman/ /var/lib/rpm/ /var/lib/systemd/";

static SCANNER: LazyLock<Result<PathScanner, InvalidPattern>> =
    LazyLock::new(|| PathScanner::compile(DATA));

/// Whether files of this kind are exempt from a rule.
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
            // In a Compose file, a line that starts with a dash is a list item and not a comment.
            FileKind::Compose => line.trim_start().starts_with('#'),
            _ => self.comment.is_match(line),
        };
        let allowed = line.contains(ALLOW_COMMENT);
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
                    needs_review: *id == SERVER_FOLDER,
                });
            }
        }
        found
    }

    /// Whether a home folder or mount point in a Compose file is a path of the host: the first part of a volume
    /// (`- /home/ann/data:/data`), or the value of a key such as `source`.
    fn is_of_host(&self, rule: &str, before: &str, path: &str) -> bool {
        let volume = path.get(2..).is_some_and(|rest| rest.contains(':'));
        matches!(rule, "home-folder" | "mount-point")
            && (volume && self.item.is_match(before) || self.host_key.is_match(before))
    }

    /// Whether a path is accepted in its context, because it is an example in a comment, a URL path, or a path that
    /// every machine has.
    fn is_accepted(&self, before: &str, path: &str, name: Option<&str>, comment: bool) -> bool {
        const PLACEHOLDERS: &str = "user username you me name yourname your-name your_name \
            youruser someone server host hostname computer disk drive volume usb data storage \
            backup app myapp";
        const SYSTEM: [&str; 8] = ["etc", "usr", "dev", "proc", "sys", "bin", "run", "path"];
        let placeholder = name.is_some_and(|name| among(&name.to_lowercase(), PLACEHOLDERS));
        // URL paths do not begin with one of these folders.
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

/// Returns the text from the start of a statement to the first character of the path in it, inclusive. The statement
/// starts after the last `;` or `#` before the path.
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
    fn invalid_rule_of_the_path_scanner_is_reported_as_an_error() {
        for rule in ["mount-point  a mounted disk  /mnt/(", "mount-point"] {
            let error = PathScanner::compile(rule).unwrap_err();
            assert_eq!(error.name, "mount-point");
        }
    }
}
