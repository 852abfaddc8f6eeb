use std::os::unix::fs::PermissionsExt as _;
use std::thread;

use super::*;

#[track_caller]
fn check(answer: &'static str, ready: bool) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(&stream).lines().map(Result::unwrap);
        let asked = lines.next().unwrap();
        assert!(lines.any(|line| line.is_empty()), "the head of the request ends");
        (&stream).write_all(answer.as_bytes()).unwrap();
        asked
    });
    assert_eq!(is_ready(address).unwrap(), ready, "{answer}");
    assert_eq!(server.join().unwrap(), "GET /ready HTTP/1.1");
}

#[test]
fn a_server_is_ready_when_it_says_so() {
    check("HTTP/1.1 200 OK\r\n\r\n", true);
    check("HTTP/1.1 503 Service Unavailable\r\n\r\n", false);
    check("", false);
}

#[test]
fn a_missing_driver_is_explained_before_anything_starts() {
    let workspace = Workspace { root: ".".to_owned(), target: "target".to_owned(), crates: Vec::new() };
    let folder = tempfile::tempdir().unwrap();
    let error = prepare(&workspace, folder.path(), Driver::Renderers).unwrap_err().to_string();
    assert!(error.contains("drive_renderers.py") && error.contains("TITO_CLIENTS"), "{error}");
}

#[test]
fn a_server_that_ends_at_once_is_quoted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap().to_owned();
    let tito = folder.path().join("tito");
    fs::write(&tito, "#!/usr/bin/env bash\necho \"no such engine: $3\" >&2\nexit 1\n").unwrap();
    fs::set_permissions(&tito, fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(folder.path().join("clients")).unwrap();
    let workspace = Workspace { root: path.clone(), target: path.clone(), crates: Vec::new() };
    let error = Server::start(&workspace, &path, "engine.test:1").err().unwrap().to_string();
    assert!(error.ends_with("no such engine: vllm://engine.test:1\n"), "{error}");
}
