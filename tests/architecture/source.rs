//! Just enough of Rust's syntax to see what a source file names: tokens, and the paths into this crate.

use std::collections::BTreeSet;
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    Word(String),
    /// A string literal of any kind, without its quotes and with its escapes as they are written.
    Text(String),
    /// `::`
    PathSeparator,
    Punctuation(char),
}

impl Token {
    pub fn is_word(&self, word: &str) -> bool {
        matches!(self, Self::Word(own) if own == word)
    }
}

/// One file of `src`, without comments and without its unit tests.
pub struct Source {
    /// Where its module is, from the crate's root: `backend/memory/shard`; empty for the root.
    pub module: String,
    pub tokens: Vec<(usize, Token)>,
    /// How many lines it has, unit tests left out.
    pub lines: usize,
}

impl Source {
    pub fn new(module: &str, text: &str) -> Self {
        let mut tokens = tokens(text);
        let mut lines = text.lines().count();
        while let Some((first, last)) = unit_tests(&tokens) {
            lines -= tokens[last].0 - tokens[first].0 + 1;
            tokens.drain(first..=last);
        }
        Self { module: module.to_owned(), tokens, lines }
    }

    /// Every source file below `folder`, but for what Cargo has built there (`target`).
    pub fn all(folder: &Path) -> Vec<Self> {
        let mut sources = Vec::new();
        let mut folders = vec![folder.to_owned()];
        while let Some(next) = folders.pop() {
            for entry in std::fs::read_dir(&next).expect("a readable folder") {
                let path = entry.expect("a readable entry").path();
                if path.is_dir() {
                    if !path.ends_with("target") {
                        folders.push(path);
                    }
                    continue;
                }
                if path.extension().is_none_or(|extension| extension != "rs") {
                    continue;
                }
                let inner = path.strip_prefix(folder).expect("a path below the folder").with_extension("");
                let module =
                    inner.components().map(|part| part.as_os_str().to_string_lossy()).collect::<Vec<_>>();
                let module = if module == ["lib"] { String::new() } else { module.join("/") };
                sources.push(Self::new(&module, &std::fs::read_to_string(&path).expect("a text file")));
            }
        }
        sources.sort_by(|one, other| one.module.cmp(&other.module));
        sources
    }

    /// The modules among `modules` that this file names, each with the line. A name at the crate's root gives
    /// the root.
    pub fn imports(&self, modules: &BTreeSet<String>) -> Vec<(usize, String)> {
        let own: Vec<String> =
            self.module.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        let mut inline: Vec<(String, usize)> = Vec::new();
        let mut depth = 0;
        let mut found = Vec::new();
        for (at, (line, token)) in self.tokens.iter().enumerate() {
            match token {
                Token::Punctuation('{') => {
                    depth += 1;
                    if let [.., (_, Token::Word(keyword)), (_, Token::Word(name))] = &self.tokens[..at]
                        && keyword == "mod"
                    {
                        inline.push((name.clone(), depth));
                    }
                }
                Token::Punctuation('}') => {
                    inline.retain(|(_, opened)| *opened < depth);
                    depth -= 1;
                }
                Token::Word(word) if self.starts_a_path(at) => {
                    let here = || own.iter().cloned().chain(inline.iter().map(|(name, _)| name.clone()));
                    let mut base: Vec<String> = match word.as_str() {
                        "crate" => Vec::new(),
                        "self" | "super" => here().collect(),
                        child
                            if modules.contains(&joined(&[own.as_slice(), &[child.to_owned()]].concat())) =>
                        {
                            own.iter().cloned().chain([child.to_owned()]).collect()
                        }
                        _ => continue,
                    };
                    if word == "super" {
                        base.pop();
                    }
                    let mut paths = Vec::new();
                    self.leaves(at + 2, base, &mut paths);
                    found.extend(paths.iter().map(|path| (*line, innermost(path, modules))));
                }
                _ => {}
            }
        }
        found
    }

    /// Whether the word at `at` is the first of several that `::` joins.
    fn starts_a_path(&self, at: usize) -> bool {
        let is_separator = |at: usize| matches!(self.tokens.get(at), Some((_, Token::PathSeparator)));
        is_separator(at + 1) && !at.checked_sub(1).is_some_and(is_separator)
    }

    /// Collects the paths that go on at `at` from `base`; gives where the last of them ends.
    fn leaves(&self, mut at: usize, mut base: Vec<String>, paths: &mut Vec<Vec<String>>) -> usize {
        loop {
            match self.tokens.get(at).map(|(_, token)| token) {
                Some(Token::Word(word)) => {
                    match word.as_str() {
                        "self" => {}
                        "super" => drop(base.pop()),
                        name => base.push(name.to_owned()),
                    }
                    at += 1;
                    if !matches!(self.tokens.get(at), Some((_, Token::PathSeparator))) {
                        break;
                    }
                    at += 1;
                }
                Some(Token::Punctuation('{')) => {
                    at += 1;
                    loop {
                        match self.tokens.get(at).map(|(_, token)| token) {
                            None => return at,
                            Some(Token::Punctuation('}')) => return at + 1,
                            Some(Token::Word(_) | Token::Punctuation('{' | '*')) => {
                                at = self.leaves(at, base.clone(), paths);
                                // A name after `as` is none of the crate's.
                                if self.tokens.get(at).is_some_and(|(_, token)| token.is_word("as")) {
                                    at += 2;
                                }
                            }
                            Some(_) => at += 1,
                        }
                    }
                }
                Some(Token::Punctuation('*')) => {
                    at += 1;
                    break;
                }
                _ => break,
            }
        }
        paths.push(base);
        at
    }
}

fn joined(path: &[String]) -> String {
    path.join("/")
}

/// The module that `path` leads into: its longest beginning that is one.
fn innermost(path: &[String], modules: &BTreeSet<String>) -> String {
    (1..=path.len()).rev().map(|len| joined(&path[..len])).find(|it| modules.contains(it)).unwrap_or_default()
}

/// The first and the last token of the first `#[cfg(test)] mod … { … }`.
fn unit_tests(tokens: &[(usize, Token)]) -> Option<(usize, usize)> {
    let spelling = ["#", "[", "cfg", "(", "test", ")", "]"];
    let is = |token: &Token, wanted: &str| match token {
        Token::Word(word) => word == wanted,
        Token::Punctuation(c) => wanted.chars().eq([*c]),
        _ => false,
    };
    let first = tokens.windows(spelling.len() + 1).position(|window| {
        window.iter().zip(spelling).all(|((_, token), wanted)| is(token, wanted))
            && window.last().is_some_and(|(_, token)| token.is_word("mod"))
    })?;
    let mut depth = 0;
    for (at, (_, token)) in tokens.iter().enumerate().skip(first) {
        match token {
            Token::Punctuation('{') => depth += 1,
            Token::Punctuation('}') if depth == 1 => return Some((first, at)),
            Token::Punctuation('}') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn tokens(text: &str) -> Vec<(usize, Token)> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let (token, len) = if let Some(len) = comment(rest) {
            (None, len)
        } else if let Some((inner, len)) = string(rest) {
            (Some(Token::Text(inner.to_owned())), len)
        } else if first.is_alphanumeric() || first == '_' {
            let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            (Some(Token::Word(rest[..len].to_owned())), len)
        } else if rest.starts_with("::") {
            (Some(Token::PathSeparator), 2)
        } else if let Some(len) = character(rest) {
            (None, len)
        } else {
            (Some(Token::Punctuation(first)).filter(|_| !first.is_whitespace()), first.len_utf8())
        };
        tokens.extend(token.map(|token| (line, token)));
        line += rest[..len].matches('\n').count();
        rest = &rest[len..];
    }
    tokens
}

fn comment(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if !rest.starts_with("/*") {
        return None;
    }
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        match rest.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] if depth == 1 => return Some(at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    Some(rest.len())
}

/// A string literal at the start of `rest`, plain, raw, of bytes or for C: its inside, and its whole length.
fn string(rest: &str) -> Option<(&str, usize)> {
    let marked = rest.trim_start_matches(['b', 'c', 'r']);
    let prefix = &rest[..rest.len() - marked.len()];
    let bare = marked.trim_start_matches('#');
    let hashes = &marked[..marked.len() - bare.len()];
    if prefix.len() > 2 || !bare.starts_with('"') || (!hashes.is_empty() && !prefix.contains('r')) {
        return None;
    }
    let start = prefix.len() + hashes.len() + 1;
    let inside = &rest[start..];
    let len = if prefix.contains('r') {
        inside.find(&format!("\"{hashes}")).unwrap_or(inside.len())
    } else {
        let mut escaped = false;
        inside
            .find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            })
            .unwrap_or(inside.len())
    };
    Some((&inside[..len], (start + len + 1 + hashes.len()).min(rest.len())))
}

/// A character literal at the start of `rest`; a lifetime is none.
fn character(rest: &str) -> Option<usize> {
    let inside = rest.strip_prefix('\'')?;
    let mut chars = inside.char_indices();
    let (_, first) = chars.next()?;
    if first == '\\' {
        let (escaped_at, _) = chars.next()?;
        let after = escaped_at + 1;
        return inside[after..].find('\'').map(|end| 1 + after + end + 1);
    }
    matches!(chars.next(), Some((_, '\''))).then(|| 1 + first.len_utf8() + 1)
}
