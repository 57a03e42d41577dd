//! A case file as lines: prose, program, directives with their blocks.

/// The place of a problem, and the problem.
pub(super) type AtLine = (usize, String);

/// A comment after the program that states what is expected.
#[derive(Clone, Debug)]
pub(super) struct Directive {
    /// Its line, from 1.
    pub(super) line: usize,
    /// The text before the colon.
    pub(super) word: String,
    /// The text after it.
    pub(super) rest: String,
    /// The indented comments that follow, with one level of indentation removed.
    pub(super) block: Vec<String>,
}

/// A file, split.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    /// The program's text.
    pub(super) program: String,
    /// The expectations, in order.
    pub(super) directives: Vec<Directive>,
}

/// Splits a file whose program begins with a word (`graph`, `kernel`) and ends with a line that is `}`, the last of
/// `n_texts` of them.
pub(super) fn split(source: &str, word: &str, n_texts: usize) -> Result<Parts, AtLine> {
    let lines: Vec<&str> = source.lines().collect();
    let begins = |line: &&str| {
        line.strip_prefix(word)
            .is_some_and(|rest| rest.starts_with(" @"))
    };
    let Some(first) = lines.iter().position(begins) else {
        return Err((
            1,
            format!("expected a line that begins with `{word} @`, found none"),
        ));
    };
    for (line, text) in (1..).zip(&lines[..first]) {
        let is_prose = text.is_empty() || text.starts_with("//");
        if !is_prose || is_directive(text) {
            let message = "expected prose as `// ...` before the program; directives follow it";
            return Err((line, message.to_owned()));
        }
    }
    let closes = |line: &&str| line.trim_end() == "}" || (begins(line) && line.ends_with('}'));
    let mut ends = (0..).zip(&lines[first..]).filter(|(_, line)| closes(line));
    let Some((length, _)) = ends.nth(n_texts - 1) else {
        return Err((
            first + 1,
            "expected the program to end with a line that is `}`".to_owned(),
        ));
    };
    let end = first + length + 1;
    let program = lines[first..end]
        .iter()
        .map(|line| format!("{line}\n"))
        .collect();
    let mut directives: Vec<Directive> = Vec::new();
    let mut is_open = false;
    for (line, text) in (end + 1..).zip(&lines[end..]) {
        let Some(comment) = text.strip_prefix("//") else {
            if !text.trim().is_empty() {
                return Err((
                    line,
                    format!("expected a comment after the program, found `{text}`"),
                ));
            }
            is_open = false;
            continue;
        };
        let inside = comment
            .strip_prefix("   ")
            .or(comment.is_empty().then_some(""));
        match (inside, directives.last_mut()) {
            (Some(inside), Some(directive)) if is_open => directive.block.push(inside.to_owned()),
            _ => {
                let Some((word, rest)) = directive(comment) else {
                    let message =
                        format!("expected `// word: ...` or an indented line, found `{text}`");
                    return Err((line, message));
                };
                let (word, rest) = (word.to_owned(), rest.to_owned());
                directives.push(Directive {
                    line,
                    word,
                    rest,
                    block: Vec::new(),
                });
                is_open = true;
            }
        }
    }
    Ok(Parts {
        program,
        directives,
    })
}

/// The word and the rest of a directive, given the text after `//`.
fn directive(comment: &str) -> Option<(&str, &str)> {
    let (word, rest) = comment.strip_prefix(' ')?.split_once(':')?;
    let is_word = !word.is_empty() && !word.starts_with(' ');
    is_word.then(|| (word, rest.trim()))
}

/// Whether a line before the program is meant as a directive.
fn is_directive(text: &str) -> bool {
    ["// also:", "// run:"]
        .iter()
        .any(|word| text.starts_with(word))
}

/// A file with some blocks replaced, by position of their directive.
pub(super) fn with_blocks(
    source: &str,
    directives: &[Directive],
    blocks: &[Vec<String>],
) -> String {
    let mut lines = source.lines();
    let mut written = String::new();
    let mut at = 0;
    for (directive, block) in directives.iter().zip(blocks) {
        for line in lines.by_ref().take(directive.line - at) {
            written.push_str(line);
            written.push('\n');
        }
        at = directive.line + directive.block.len();
        for _ in &directive.block {
            lines.next();
        }
        for line in block {
            written.push_str(format!("//   {line}").trim_end());
            written.push('\n');
        }
    }
    for line in lines {
        written.push_str(line);
        written.push('\n');
    }
    written
}
