//! Source hygiene that no compiler checks: floors, who may touch what, lengths, links, machine
//! paths.
//!
//! It reads the tree it stands in, without git, so it holds in an unpacked package too.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::disallowed_methods,
    reason = "tests stop at the first surprise and read the tree with std"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// design.md part 2. A module names modules of lower floors and itself.
const FLOORS: [(&str, u8); 20] = [
    ("types", 0),
    ("sync", 0),
    ("record", 1),
    ("index", 1),
    ("epoch", 1),
    ("checkpoint", 1),
    ("names", 1),
    ("producer", 1),
    ("error", 2),
    ("storage", 3),
    ("replication", 3),
    ("log", 4),
    ("log_dir", 5),
    ("replica", 6),
    ("inspect", 6),
    ("scenario", 7),
    ("bin", 7),
    ("docs", 8),
    ("lib", 8),
    ("prelude", 8),
];

const MAX_LINES: usize = 800;
const MAX_COLUMNS: usize = 100;
const SIX_CRATES: [&str; 6] = [
    "memmap2",
    "crc32fast",
    "fs2",
    "byteorder",
    "tempfile",
    "criterion",
];

struct Source {
    path: String,
    text: String,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Files under the root whose name ends so, without build output, version control and test data.
fn sources(folder: &str, suffixes: &[&str]) -> Vec<Source> {
    let mut found = Vec::new();
    let mut open = vec![root().join(folder)];
    while let Some(dir) = open.pop() {
        let Ok(entries) = fs::read_dir(dir) else {
            continue;
        };
        for entry in entries {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let skipped = [
                "target",
                ".git",
                "fixtures",
                "corpus",
                "artifacts",
                "node_modules",
            ];
            if skipped.contains(&name.as_str()) || path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if suffixes.iter().any(|suffix| name.ends_with(suffix))
                && let Ok(text) = fs::read_to_string(&path)
            {
                let path = path
                    .strip_prefix(root())
                    .unwrap()
                    .to_string_lossy()
                    .into_owned();
                found.push(Source { path, text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// The code of the crate: no comments, nothing from the first `#[cfg(test)]` module on, no test
/// files.
fn library() -> Vec<Source> {
    let is_test = |path: &str| path.ends_with("/tests.rs") || path.contains("/tests/");
    let kept = sources("src", &[".rs"])
        .into_iter()
        .filter(|source| !is_test(&source.path));
    kept.map(|source| Source {
        text: code_of(&source.text),
        path: source.path,
    })
    .collect()
}

fn code_of(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut code = String::new();
    for (at, line) in lines.iter().enumerate() {
        let next = lines[at + 1..]
            .iter()
            .find(|next| !next.trim_start().starts_with("#["));
        let opens_tests = next.is_some_and(|next| next.starts_with("mod ") && next.contains('{'));
        if *line == "#[cfg(test)]" && opens_tests {
            break;
        }
        let comment = line.find("//").filter(|at| !line[..*at].ends_with(':'));
        code.push_str(&line[..comment.unwrap_or(line.len())]);
        code.push('\n');
    }
    code
}

/// `src/log/append.rs` is of module `log`, `src/epoch.rs` of `epoch`.
fn module_of(path: &str) -> &str {
    let inner = path.strip_prefix("src/").unwrap();
    let first = inner.split('/').next().unwrap();
    first.strip_suffix(".rs").unwrap_or(first)
}

fn floor_of(module: &str) -> Option<u8> {
    FLOORS
        .iter()
        .find(|(name, _)| *name == module)
        .map(|(_, floor)| *floor)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The first names behind every `crate::`, groups in braces and line breaks included.
fn crate_names(code: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        if at > 0 && (is_word(code.as_bytes()[at - 1]) || code[..at].ends_with('$')) {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            Some(group) => names.extend(group_heads(group)),
            None => names.extend([head(rest)]),
        }
    }
    names
}

fn head(text: &str) -> String {
    text.chars()
        .take_while(|c| c.is_ascii_alphanumeric() || *c == '_')
        .collect()
}

fn group_heads(group: &str) -> Vec<String> {
    let (mut depth, mut expects, mut heads) = (1_usize, true, Vec::new());
    for (at, sign) in group.char_indices() {
        match sign {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => expects = true,
            _ if expects && depth == 1 && !sign.is_whitespace() => {
                heads.push(head(&group[at..]));
                expects = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    heads
}

/// `super::` out of a top-level file, or out of `mod.rs`, reaches the crate root: `super::other`.
fn super_names(path: &str, code: &str) -> BTreeSet<String> {
    let parts = path.trim_end_matches("/mod.rs").matches('/').count();
    let climb = "super::".repeat(parts);
    let reach = |(at, _): (usize, &str)| {
        let outermost = !code[..at].ends_with("super::");
        outermost.then(|| head(&code[at + climb.len()..]))
    };
    code.match_indices(&climb)
        .filter_map(reach)
        .filter(|name| name != "super")
        .collect()
}

fn assert_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn a_module_names_lower_floors_and_itself_only() {
    let mut complaints = Vec::new();
    // In the binary `crate` is the binary; that it sees the public API only, the compiler holds.
    for source in library()
        .iter()
        .filter(|source| module_of(&source.path) != "bin")
    {
        let module = module_of(&source.path);
        let Some(floor) = floor_of(module) else {
            complaints.push(format!("{}: module {module} has no floor", source.path));
            continue;
        };
        let mut names = crate_names(&source.text);
        names.extend(super_names(&source.path, &source.text));
        for name in names.iter().filter(|name| *name != module) {
            let is_lower = floor_of(name).is_none_or(|other| other < floor);
            let is_pure = module != "replication" || name != "error";
            if !is_lower || !is_pure {
                complaints.push(format!("{}: floor {floor} names {name}", source.path));
            }
        }
    }
    assert_none(&complaints);
}

/// Complaints about words that only some modules may write.
fn words_outside(words: &[&str], may: impl Fn(&str) -> bool) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in library()
        .iter()
        .filter(|source| !may(module_of(&source.path)))
    {
        for word in words {
            if holds_word(&source.text, word) {
                complaints.push(format!("{}: {word}", source.path));
            }
        }
    }
    complaints
}

fn holds_word(code: &str, word: &str) -> bool {
    code.match_indices(word)
        .any(|(at, _)| at == 0 || !is_word(code.as_bytes()[at - 1]))
}

#[test]
fn only_storage_touches_the_file_system() {
    // The binary measures against the raw system calls, and reads a scenario's text.
    let words = ["std::fs", "fs2::", "memmap2::", "libc::", "rustix::"];
    let is_free = |module: &str| matches!(module, "storage" | "bin");
    assert_none(&words_outside(&words, is_free));
}

#[test]
fn only_the_binary_prints_and_reads_arguments() {
    let words = [
        "println!",
        "print!",
        "eprintln!",
        "eprint!",
        "std::env",
        "env::args",
    ];
    assert_none(&words_outside(&words, |module| module == "bin"));
}

#[test]
fn codecs_and_the_replication_core_take_no_clock_and_start_no_thread() {
    let is_free = |module: &str| {
        module != "replication"
            && module != "sync"
            && floor_of(module).is_none_or(|floor| floor > 1)
    };
    assert_none(&words_outside(
        &["std::time::Instant", "SystemTime", "std::thread"],
        is_free,
    ));
}

#[test]
fn nothing_unfinished_is_left() {
    let unfinished = ["dbg!(", "todo!(", "unimplemented!("];
    assert_none(&words_outside(&unfinished, |_| false));
}

#[test]
fn files_and_lines_are_short() {
    let mut complaints = Vec::new();
    for folder in ["src", "tests", "benches", "fuzz"] {
        for source in sources(folder, &[".rs"]) {
            let lines = source.text.lines().count();
            if lines > MAX_LINES {
                complaints.push(format!("{}: {lines} lines", source.path));
            }
            for (at, line) in source.text.lines().enumerate() {
                // A row of a table cannot be wrapped, nor a link.
                let text = line
                    .trim_start()
                    .trim_start_matches(['/', '!'])
                    .trim_start();
                let fixed = text.starts_with('|') || line.contains("://");
                if line.chars().count() > MAX_COLUMNS && !fixed {
                    complaints.push(format!("{}:{}: long line", source.path, at + 1));
                }
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn code_is_ascii() {
    let mut complaints = Vec::new();
    for folder in ["src", "tests", "benches", "fuzz"] {
        for source in sources(folder, &[".rs", ".toml"]) {
            for (at, line) in source
                .text
                .lines()
                .enumerate()
                .filter(|(_, line)| !line.is_ascii())
            {
                complaints.push(format!("{}:{}: {line}", source.path, at + 1));
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn no_file_names_a_place_of_one_machine() {
    // Put together, so that this file passes.
    let places = ["home", "root", "work", "Users"].map(|place| format!("/{place}/"));
    let mut complaints = Vec::new();
    for source in sources("", &[".rs", ".toml", ".md", ".sh", ".yml", ".txt", "run"]) {
        for (at, line) in source.text.lines().enumerate() {
            let begins = |at: usize| at == 0 || !is_word(line.as_bytes()[at - 1]);
            let names = |place: &String| line.match_indices(place).any(|(at, _)| begins(at));
            if places.iter().any(names) && !line.contains("://") {
                complaints.push(format!("{}:{}: {line}", source.path, at + 1));
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn markdown_links_lead_somewhere() {
    let mut complaints = Vec::new();
    for source in sources("", &[".md"]) {
        let folder = root().join(Path::new(&source.path).parent().unwrap());
        for (at, _) in source.text.match_indices("](") {
            let rest = &source.text[at + 2..];
            let target = rest.split([')', ' ']).next().unwrap();
            let file = target.split('#').next().unwrap();
            // An item path is a link of rustdoc, which checks it itself.
            let elsewhere = file.is_empty() || target.contains("://") || target.contains("::");
            let is_file = file.contains(['.', '/']);
            if !elsewhere
                && is_file
                && !target.starts_with("mailto:")
                && !folder.join(file).exists()
            {
                complaints.push(format!("{}: {target}", source.path));
            }
        }
    }
    assert_none(&complaints);
}

#[test]
fn every_fuzz_target_is_listed() {
    let Ok(manifest) = fs::read_to_string(root().join("fuzz/Cargo.toml")) else {
        return;
    };
    let readme = fs::read_to_string(root().join("fuzz/README.md")).unwrap_or_default();
    let targets = sources("fuzz/fuzz_targets", &[".rs"]);
    let stems = targets
        .iter()
        .map(|s| Path::new(&s.path).file_stem().unwrap().to_str().unwrap());
    let missing = stems.filter(|stem| {
        !readme.contains(&format!("`{stem}`")) || !manifest.contains(&format!("\"{stem}\""))
    });
    let complain = |stem| format!("{stem}: not in README.md or Cargo.toml");
    assert_none(&missing.map(complain).collect::<Vec<_>>());
}

#[test]
fn the_six_crates_are_dependencies() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    for name in SIX_CRATES {
        let stands = manifest
            .lines()
            .any(|line| line.starts_with(&format!("{name} = ")));
        assert!(stands, "{name}");
    }
}

#[test]
fn the_parser_sees_what_it_should() {
    let text = "use crate::{\n    log::{A, B},\n    types::C,\n};\n// crate::no\n\
        fn f() { crate::x::y() }\n#[cfg(test)]\nmod tests { use crate::late; }\n";
    let code = code_of(text);

    let names: Vec<_> = crate_names(&code).into_iter().collect();

    assert_eq!(names, ["log", "types", "x"]);
    assert_eq!(
        super_names("src/epoch.rs", "super::log::X")
            .into_iter()
            .next()
            .unwrap(),
        "log"
    );
    assert_eq!(
        super_names("src/log/a.rs", "super::super::b")
            .into_iter()
            .next()
            .unwrap(),
        "b"
    );
    assert!(super_names("src/log/a.rs", "super::b").is_empty());
    assert_eq!(
        super_names("src/log/mod.rs", "super::b")
            .into_iter()
            .next()
            .unwrap(),
        "b"
    );
}
