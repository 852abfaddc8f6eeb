use super::*;

#[track_caller]
fn check(url: &str, expected: Result<(&str, &str), NotPlain>) {
    let parsed = PlainUrl::parse(url);
    let parsed = parsed.as_ref().map(|url| (url.authority.as_str(), url.path.as_str())).map_err(|why| *why);
    assert_eq!(parsed, expected, "{url}");
}

#[test]
fn a_url_has_a_host_a_port_and_a_path() {
    check("http://192.0.2.1:8000", Ok(("192.0.2.1:8000", "/")));
    check("http://h", Ok(("h:80", "/")));
    check("http://[2001:db8::1]:1/", Ok(("[2001:db8::1]:1", "/")));
    check("http://h:1/base/", Ok(("h:1", "/base/")));
    check("https://h:1", Err(NotPlain::Tls));
    check("h:8000", Err(NotPlain::Scheme));
    check("192.0.2.1:8000", Err(NotPlain::Scheme));
    check("ftp://h", Err(NotPlain::Scheme));
    check("http://me@h", Err(NotPlain::Host));
    check("http://h:99999", Err(NotPlain::Port));
    check("http://h:0", Err(NotPlain::Port));
    check("http://h:", Err(NotPlain::Port));
    check("http://h:+80", Err(NotPlain::Port));
    check("http://:80", Err(NotPlain::Host));
    check("http://h/#a", Err(NotPlain::Query));
    check("http://h/?a=1", Err(NotPlain::Query));
    check("http://a b", Err(NotPlain::Url));
    check("", Err(NotPlain::Url));
}
