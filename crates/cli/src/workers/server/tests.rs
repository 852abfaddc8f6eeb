use super::*;

#[track_caller]
fn check(url: &str, expected: Result<(&str, &str), &str>) {
    match (Server::parse(url), expected) {
        (Ok(server), Ok((authority, path))) => {
            assert_eq!((server.authority.as_str(), server.base.as_str()), (authority, path), "{url}");
        }
        (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{url}: {error}"),
        (found, expected) => panic!("{url}: {found:?}, expected {expected:?}"),
    }
}

#[test]
fn a_url_names_a_plain_http_server() {
    check("http://192.0.2.1:8000", Ok(("192.0.2.1:8000", "")));
    check("http://h:1/base/", Ok(("h:1", "/base")));
    check("https://h:1", Err("curl --cacert CA https://h:1/workers"));
    check("h:8000", Err("must begin with http://; write it as http://HOST:PORT"));
    check("http://h:99999", Err("has no such port"));
}

#[test]
fn a_failure_is_told_in_the_servers_words() {
    let envelope = r#"{"error":{"message":"too\nmuch","type":"t","param":null,"code":"overloaded"}}"#;
    assert_eq!(message_of(envelope), "too?much");
    assert_eq!(message_of("<html>"), "<html>");
    assert_eq!(message_of(&"x".repeat(10_000)).len(), MESSAGE_CHARS_MAX);
}
