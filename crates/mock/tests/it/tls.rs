//! TLS, one-way and mutual.

use tito_mock::{MockConfig, TlsFiles};
use tito_test_support::tls::Authority;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use vllm_proto::inference_client::InferenceClient;

use crate::support::{Running, outputs, prompt, request};

fn files(authority: &Authority, mutual: bool) -> TlsFiles {
    TlsFiles {
        certificate: authority.path("cert"),
        key: authority.path("key"),
        client_authority: mutual.then(|| authority.path("ca")),
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
    let authority = Authority::new();
    let mock = Running::start(MockConfig { tls: Some(files(&authority, false)), ..MockConfig::new() }).await;
    let trusting = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority.pem()));
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
    let authority = Authority::new();
    let mock = Running::start(MockConfig { tls: Some(files(&authority, true)), ..MockConfig::new() }).await;
    let trusting = || ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority.pem()));
    let known = trusting().identity(Identity::from_pem(&authority.client.certificate, &authority.client.key));
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
