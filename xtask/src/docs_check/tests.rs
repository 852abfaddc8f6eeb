use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use super::*;

#[track_caller]
fn check(script: &str, limit: Duration, expected: Result<(), &str>) {
    let example = Example { path: "README.md".to_owned(), line: 1, script: script.to_owned() };
    let ending = play(".", "extra-bin", &example, limit).unwrap();
    assert_eq!(ending, expected.map_err(str::to_owned), "{script}");
}

const LIMIT: Duration = Duration::from_mins(1);

#[test]
fn only_the_commands_of_tagged_blocks_are_taken() {
    let page = "\
```console
$ untested
```
text
```console test
$ tito check \\
    --strict
all is well
$ tito demo --exit
```
```rust
$ untested
```
";
    let expected = Example {
        path: "docs/a.md".to_owned(),
        line: 5,
        script: "tito check \\\n    --strict\ntito demo --exit\n".to_owned(),
    };
    assert_eq!(parse("docs/a.md", page), [expected]);
}

#[test]
fn only_the_readme_and_the_docs_are_read() {
    let text = "```console test\n$ true\n```\n";
    for (path, count) in [("README.md", 1), ("docs/a/b.md", 1), ("CONTRIBUTING.md", 0), ("docs/a.txt", 0)] {
        let file = SourceFile { path: path.to_owned(), text: Some(text.to_owned()) };
        assert_eq!(examples_of(&file).len(), count, "{path}");
    }
}

#[test]
fn a_block_passes_when_every_command_does() {
    check("true\nx=1\ntest $x = 1\n", LIMIT, Ok(()));
    check("case $PATH in extra-bin:*) ;; *) false ;; esac\n", LIMIT, Ok(()));
}

#[test]
fn the_first_command_that_fails_ends_the_block() {
    check("false\nexit 0\n", LIMIT, Err("failed: exit status: 1"));
    check("false | true\n", LIMIT, Err("failed: exit status: 1"));
    check("exit 3\n", LIMIT, Err("failed: exit status: 3"));
    check("exec 2>/dev/null\necho $unset_variable\n", LIMIT, Err("failed: exit status: 1"));
}

#[test]
fn a_block_that_does_not_end_is_given_up_at_its_limit() {
    check("tail -f /dev/null\n", Duration::ZERO, Err("still running after 0 s"));
}

#[test]
fn whatever_a_block_started_ends_with_it() {
    let mut leash = Leash::start(RUNNER, &["bin", "tail -f /dev/null & echo started; wait"], |command| {
        command.stdout(Stdio::piped());
    })
    .unwrap();
    let mut said = BufReader::new(leash.stdout().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "started\n");
    drop(leash);
    // Every process of the block holds the other end, so this returns only when all are gone.
    assert_eq!(said.read_to_string(&mut line).unwrap(), 0);
}
