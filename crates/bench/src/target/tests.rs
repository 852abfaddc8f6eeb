use super::Endpoint;
use crate::config::Api;

#[track_caller]
fn check(url: &str, expected: &str) {
    let endpoint = Endpoint::parse(url);
    let actual = match endpoint {
        Ok(endpoint) => {
            format!("{} {} {}", endpoint.host, endpoint.port, endpoint.path(Api::Completions.path()))
        }
        Err(error) => error.to_string(),
    };
    assert_eq!(actual, expected);
}

#[test]
fn a_url_gives_host_port_and_the_path_of_the_route() {
    check("http://192.0.2.1:8000", "192.0.2.1 8000 /v1/completions");
    check("http://host/", "host 80 /v1/completions");
    check("http://host/a/b/", "host 80 /a/b/v1/completions");
    check("https://host", "host 443 /v1/completions");
    check("https://host:8443/a", "host 8443 /a/v1/completions");
    check("http://[2001:db8::1]:9", "2001:db8::1 9 /v1/completions");
}

#[test]
fn a_url_this_client_cannot_use_is_refused_with_the_reason() {
    check("ftp://host", "url `ftp://host`: must begin with http:// or https://");
    for port in ["80800", "65536", "x", "-1"] {
        let (url, said) = (format!("http://h.test:{port}/v1"), "the port must be a number from 0 to 65535");
        check(&url, &format!("url `{url}`: {said}"));
    }
    check("http://h.test:/v1", "h.test 80 /v1/v1/completions");
    check("host:80", "url `host:80`: must begin with http:// or https://");
    check("http://a@b", "url `http://a@b`: user names are not supported");
    check("http://host/?x=1", "url `http://host/?x=1`: a query is not supported");
    check("http://ho st", "url `http://ho st`: not a URL");
    check("", "url ``: not a URL");
}
