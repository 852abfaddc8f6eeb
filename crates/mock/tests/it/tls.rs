//! TLS, one-way and mutual.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tito_mock::{MockConfig, TlsFiles};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use vllm_proto::inference_client::InferenceClient;

use crate::support::{Running, outputs, prompt, request};

/// An authority with one server and one client certificate, on disk.
struct Pki {
    directory: tempfile::TempDir,
    authority: String,
    client: (String, String),
}

fn pki() -> Pki {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let issue = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &authority).unwrap().pem(), key.serialize_pem())
    };
    let directory = tempfile::tempdir().unwrap();
    let (certificate, key) = issue("localhost");
    for (name, text) in [("cert.pem", &certificate), ("key.pem", &key), ("ca.pem", &authority.pem())] {
        std::fs::write(directory.path().join(name), text).unwrap();
    }
    Pki { directory, authority: authority.pem(), client: issue("client") }
}

fn files(pki: &Pki, mutual: bool) -> TlsFiles {
    let file = |name: &str| pki.directory.path().join(name);
    TlsFiles {
        certificate: file("cert.pem"),
        key: file("key.pem"),
        client_authority: mutual.then(|| file("ca.pem")),
    }
}

async fn connect(mock: &Running, tls: ClientTlsConfig) -> Result<Channel, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("https://{}", mock.grpc)).unwrap();
    endpoint.tls_config(tls.domain_name("localhost")).unwrap().connect().await
}

async fn generates(channel: Channel) -> bool {
    let reply = InferenceClient::new(channel).generate(request("r", &prompt(1, 20), 2)).await;
    reply.is_ok_and(|reply| outputs(reply.into_inner()).num_tokens == 2)
}

#[tokio::test]
async fn tls_serves_those_who_trust_it() {
    let pki = pki();
    let mock = Running::start(MockConfig { tls: Some(files(&pki, false)), ..MockConfig::new() }).await;
    let trusting = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&pki.authority));
    assert!(generates(connect(&mock, trusting).await.unwrap()).await);
    assert!(connect(&mock, ClientTlsConfig::new()).await.is_err(), "an unknown authority");
    let plain = Endpoint::from_shared(format!("http://{}", mock.grpc)).unwrap().connect().await;
    let served = match plain {
        Ok(channel) => generates(channel).await,
        Err(_) => false,
    };
    assert!(!served, "no plain text on a TLS port");
}

#[tokio::test]
async fn mutual_tls_wants_a_client_certificate() {
    let pki = pki();
    let mock = Running::start(MockConfig { tls: Some(files(&pki, true)), ..MockConfig::new() }).await;
    let trusting = || ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&pki.authority));
    let known = trusting().identity(Identity::from_pem(&pki.client.0, &pki.client.1));
    assert!(generates(connect(&mock, known).await.unwrap()).await);
    let served = match connect(&mock, trusting()).await {
        Ok(channel) => generates(channel).await,
        Err(_) => false,
    };
    assert!(!served);
}

#[tokio::test]
async fn missing_files_are_named() {
    let files =
        TlsFiles { certificate: "no-such.pem".into(), key: "no-such.pem".into(), client_authority: None };
    let error = MockConfig { tls: Some(files), ..MockConfig::new() }.build().await.unwrap_err();
    assert!(error.to_string().contains("no-such.pem"), "{error}");
}
