//! The shortest text that a simple regular expression or grammar takes. `None` for what is not understood,
//! which the engine answers like a broken pattern: with an empty output.

use std::iter::Peekable;
use std::str::Chars;

/// Longest text made.
const TEXT_MAX: usize = 512;
/// Deepest group.
const DEPTH_MAX: u32 = 16;

/// A text that matches: literals, classes, groups, alternatives and repetitions, each at its least.
pub(super) fn of_regex(regex: &str) -> Option<String> {
    let mut chars = regex.chars().peekable();
    let text = alternatives(&mut chars, 0)?;
    chars.next().is_none().then_some(text)
}

/// The first alternative of the start rule, if it is a quoted text.
pub(super) fn of_grammar(grammar: &str) -> Option<String> {
    let line = grammar.lines().find_map(|line| {
        let (name, rule) = line.split_once(':')?;
        matches!(name.trim(), "start" | "root").then_some(rule.trim_start_matches([':', '=']))
    })?;
    let line = line.trim();
    let (text, _) = line.strip_prefix('"')?.split_once('"')?;
    Some(text.to_owned())
}

fn alternatives(chars: &mut Peekable<Chars<'_>>, depth: u32) -> Option<String> {
    let first = sequence(chars, depth)?;
    while chars.next_if_eq(&'|').is_some() {
        sequence(chars, depth)?;
    }
    Some(first)
}

fn sequence(chars: &mut Peekable<Chars<'_>>, depth: u32) -> Option<String> {
    let mut text = String::new();
    while let Some(&next) = chars.peek() {
        if matches!(next, '|' | ')') {
            break;
        }
        chars.next();
        let atom = match next {
            '^' | '$' => String::new(),
            '(' => group(chars, depth)?,
            '[' => class(chars)?.to_string(),
            '\\' => escape(chars.next()?)?.to_string(),
            '.' => "a".to_owned(),
            '*' | '+' | '?' | '{' => return None,
            literal => literal.to_string(),
        };
        for _ in 0..repetitions(chars)? {
            text.push_str(&atom);
            if text.len() > TEXT_MAX {
                return None;
            }
        }
    }
    Some(text)
}

fn group(chars: &mut Peekable<Chars<'_>>, depth: u32) -> Option<String> {
    if depth >= DEPTH_MAX {
        return None;
    }
    if chars.next_if_eq(&'?').is_some() {
        chars.next_if_eq(&':')?;
    }
    let text = alternatives(chars, depth + 1)?;
    chars.next_if_eq(&')')?;
    Some(text)
}

/// The first character of a class. Negated classes are not understood.
fn class(chars: &mut Peekable<Chars<'_>>) -> Option<char> {
    let first = match chars.next()? {
        '^' | ']' => return None,
        '\\' => escape(chars.next()?)?,
        literal => literal,
    };
    for next in chars.by_ref() {
        if next == ']' {
            return Some(first);
        }
    }
    None
}

fn escape(kind: char) -> Option<char> {
    match kind {
        'd' => Some('0'),
        'w' => Some('a'),
        's' => Some(' '),
        'n' => Some('\n'),
        't' => Some('\t'),
        'D' | 'W' | 'S' | 'b' | 'B' => None,
        literal => Some(literal),
    }
}

/// How often the atom before appears at least.
fn repetitions(chars: &mut Peekable<Chars<'_>>) -> Option<usize> {
    let count = match chars.peek() {
        Some('*' | '?') => 0,
        Some('+') => 1,
        Some('{') => {
            chars.next();
            let digits: String = std::iter::from_fn(|| chars.next_if(char::is_ascii_digit)).collect();
            let rest: String = std::iter::from_fn(|| chars.next_if(|next| *next != '}')).collect();
            chars.next_if_eq(&'}')?;
            let bounded = rest.is_empty() || rest.starts_with(',');
            return if bounded { digits.parse().ok().filter(|count| *count <= TEXT_MAX) } else { None };
        }
        _ => return Some(1),
    };
    chars.next();
    // A lazy or possessive mark changes nothing here.
    chars.next_if(|next| matches!(next, '?' | '+'));
    Some(count)
}
