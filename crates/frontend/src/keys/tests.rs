use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use tito_runtime::Chain;

use super::*;
use crate::Secret;

fn config(keys: &[&str], file: Option<PathBuf>) -> KeyConfig {
    let keys = keys.iter().map(|key| Secret::new((*key).to_owned())).collect();
    KeyConfig { keys, file, metrics_open: false }
}

fn read(config: &KeyConfig) -> Result<KeyRing, Error> {
    Sources::try_new(config)?.read()
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

#[test]
fn a_key_is_taken_from_either_header() {
    let ring = read(&config(&["alpha", "beta"], None)).unwrap();
    let granted = |key: &str| Verdict::Granted(Scope::of_key(Sha256::digest(key).into()));
    for (pairs, expected) in [
        (vec![], Verdict::Missing),
        (vec![("authorization", "Bearer alpha")], granted("alpha")),
        (vec![("authorization", "bearer beta")], granted("beta")),
        (vec![("authorization", "BEARER  beta")], granted("beta")),
        (vec![("x-api-key", "beta")], granted("beta")),
        (vec![("authorization", "Bearer wrong"), ("x-api-key", "alpha")], granted("alpha")),
        (vec![("authorization", "Basic abc"), ("x-api-key", "alpha")], granted("alpha")),
        (vec![("authorization", "Basic alpha")], Verdict::Missing),
        (vec![("authorization", "alpha")], Verdict::Missing),
        (vec![("authorization", "Bearer")], Verdict::Missing),
        (vec![("authorization", "Bearer ")], Verdict::Wrong),
        (vec![("authorization", "Bearer alph")], Verdict::Wrong),
        (vec![("authorization", "Bearer alpha beta")], Verdict::Wrong),
        (vec![("authorization", "Bearer Alpha")], Verdict::Wrong),
        (vec![("x-api-key", "")], Verdict::Wrong),
    ] {
        assert_eq!(ring.judge(&headers(&pairs)), expected, "{pairs:?}");
    }
}

#[test]
fn without_keys_everyone_may_ask() {
    let ring = read(&config(&[], None)).unwrap();
    assert_eq!(ring.judge(&HeaderMap::new()), Verdict::Granted(Scope::SHARED));
}

#[track_caller]
fn check_file(text: impl AsRef<[u8]>, expected: Result<usize, &str>) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("keys");
    fs::write(&path, text).unwrap();
    let read = read(&config(&[], Some(path)));
    match (read, expected) {
        (Ok(ring), Ok(count)) => assert_eq!(ring.0.len(), count),
        (Err(error), Err(expected)) => {
            let chain = Chain(&error).to_string();
            assert!(chain.contains(expected), "{chain}");
        }
        (read, expected) => panic!("{read:?}, expected {expected:?}"),
    }
}

#[test]
fn a_key_file_holds_one_key_per_line() {
    check_file("one\n", Ok(1));
    check_file("# team a\none\r\n\n  two  \n#three", Ok(2));
    check_file("", Err("holds no key"));
    check_file("# nothing\n\n", Err("holds no key"));
    check_file("good\ntwo words\n", Err("line 2 is not"));
    check_file("k".repeat(KEY_CHARS_MAX + 1), Err("line 1 is not"));
    check_file("schlüssel", Err("line 1 is not"));
    check_file(b"\xff\xfe", Err("cannot be read"));
    check_file("k\n".repeat(KEYS_MAX + 1), Err("more than 1024 keys"));
    check_file("k\n".repeat(FILE_BYTES_MAX as usize), Err("is larger than"));
}

#[test]
fn a_bad_source_is_named_and_no_key_is_shown() {
    let error = read(&config(&["fine", "not fine"], None)).unwrap_err();
    let chain = Chain(&error).to_string();
    assert_eq!(chain, "key number 2: is not 1 to 1024 visible ASCII characters");
    let missing = read(&config(&[], Some("/nonexistent/keys".into()))).unwrap_err();
    assert!(Chain(&missing).to_string().starts_with("key file /nonexistent/keys: cannot be read: "));
    let shown = format!("{:?} {:?}", config(&["hidden"], None), read(&config(&["hidden"], None)));
    assert!(!shown.contains("hidden"), "{shown}");
}

#[test]
fn keys_and_file_are_checked_together() {
    let errors = |keys: &[&str], file: Option<&str>| {
        let errors = check(&config(keys, file.map(PathBuf::from)));
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    assert_eq!(errors(&["fine"], None), "");
    assert_eq!(errors(&["fine", ""], None), "key number 2");
    assert_eq!(errors(&[""], Some("/nonexistent/keys")), "key number 1; key file /nonexistent/keys");
    let many = vec!["k"; KEYS_MAX + 1];
    assert_eq!(errors(&many, None), format!("key number {}", KEYS_MAX + 1));
}

#[test]
fn what_is_kept_for_reloads_holds_digests_only() {
    let Sources { fixed, file } = Sources::try_new(&config(&["alpha"], None)).unwrap();
    assert_eq!((fixed, file), (vec![Hash::from(Sha256::digest("alpha"))], None));
}
