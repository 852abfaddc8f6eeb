use std::fs;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tito_runtime::ReloadTrigger;

use super::*;

/// A frontend over `tls`, and what asks it to read its files again.
async fn reloadable(tls: TlsConfig) -> (Running, ReloadTrigger) {
    let setup = setup_with(quick(), |config| config.tls = Some(tls)).await.unwrap();
    let reload = setup.reload.clone();
    (setup.run(), reload)
}

/// Asks for the files to be read again and waits until that has gone so, for the time `count`.
async fn reloads(running: &Running, reload: &ReloadTrigger, result: &str, count: u32) {
    reload.fire();
    let line = format!("tito_frontend_tls_reloads_total{{result=\"{result}\"}} {count}");
    running.wait_for_metric(&line).await;
}

/// The certificate that a new connection is shown, after it was served.
async fn shown(authority: &Authority, running: &Running) -> CertificateDer<'static> {
    let socket = trusting(authority, running, None, &[]).await.unwrap();
    let shown = socket.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned();
    let mut client = Raw::over(socket);
    client.send(get_text("/live")).await;
    assert_eq!(client.reply().await.status, 200);
    shown
}

/// Puts a new certificate and key of this authority where the server's are.
fn renew(authority: &Authority) -> CertificateDer<'static> {
    let Identity { certificate, key } = authority.sign();
    authority.write("cert", &certificate);
    authority.write("key", &key);
    CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()
}

#[tokio::test]
async fn new_connections_get_the_new_certificate_and_old_ones_live_on() {
    let authority = Authority::new();
    let (running, reload) = reloadable(config(&authority)).await;
    let before = shown(&authority, &running).await;
    let mut old = Raw::over(trusting(&authority, &running, None, &[]).await.unwrap());
    let renewed = renew(&authority);
    assert_eq!(shown(&authority, &running).await, before, "nothing changes before it is asked for");
    reloads(&running, &reload, "ok", 1).await;
    assert_ne!(before, renewed);
    assert_eq!(shown(&authority, &running).await, renewed);
    for _ in 0..2 {
        old.send(post_text("/inference/v1/generate", r#"{"stream":true}"#)).await;
        old.until(b"data: [DONE]\n\n").await;
        old.until(b"0\r\n\r\n").await;
    }
}

#[tokio::test]
async fn files_that_cannot_be_used_change_nothing() {
    let authority = Authority::new();
    let other = Authority::new();
    let (running, reload) = reloadable(config(&authority)).await;
    let before = shown(&authority, &running).await;
    let key = fs::read_to_string(authority.path("key")).unwrap();
    for (failures, (name, text)) in (1..).zip([
        ("cert", String::new()),
        ("cert", key.clone()),
        ("key", fs::read_to_string(other.path("key")).unwrap()),
        ("key", "-----BEGIN PRIVATE KEY-----\nAAAA".to_owned()),
    ]) {
        let good = fs::read_to_string(authority.path(name)).unwrap();
        authority.write(name, &text);
        reloads(&running, &reload, "failed", failures).await;
        assert_eq!(shown(&authority, &running).await, before);
        authority.write(name, &good);
    }
    fs::remove_file(authority.path("cert")).unwrap();
    reloads(&running, &reload, "failed", 5).await;
    assert_eq!(shown(&authority, &running).await, before);
    let renewed = renew(&authority);
    reloads(&running, &reload, "ok", 1).await;
    assert_eq!(shown(&authority, &running).await, renewed, "mended files are taken");
}

#[tokio::test]
async fn another_client_authority_shuts_out_the_clients_of_the_old_one() {
    let (authority, next) = (Authority::new(), Authority::new());
    let client_ca = Some(authority.path("ca"));
    let (running, reload) = reloadable(TlsConfig { client_ca, ..config(&authority) }).await;
    let client = |of: &Authority| client(&authority, Some(&of.sign()), &["http/1.1"]);
    let (ours, theirs) = (client(&authority), client(&next));
    let served = async |client: &TlsConnector| was_served(client, &running).await;
    assert_eq!(served(&ours).await, Some(HandshakeKind::Full));
    assert_eq!(served(&ours).await, Some(HandshakeKind::Resumed));
    assert_eq!(served(&theirs).await, None);
    authority.write("ca", &next.pem());
    reloads(&running, &reload, "ok", 1).await;
    assert_eq!(served(&ours).await, None, "no session outlives the authority that let it in");
    assert_eq!(served(&theirs).await, Some(HandshakeKind::Full));
}
