//! TLS, one-way and mutual.

use tito_mock::{MockConfig, TlsFiles};
use tito_test_support::tls::Authority;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
use vllm_proto::inference_client::InferenceClient;

use crate::support::{Running, outputs, prompt, request};

async fn start(authority: &Authority, mutual: bool) -> Running {
    let (certificate, key) = (authority.path("cert"), authority.path("key"));
    let client_authority = mutual.then(|| authority.path("ca"));
    let tls = Some(TlsFiles { certificate, key, client_authority });
    Running::start(MockConfig { tls, ..MockConfig::new() }).await
}

/// Whether a client is served that speaks TLS like this, or none.
async fn serves(mock: &Running, tls: Option<ClientTlsConfig>) -> bool {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let endpoint = Endpoint::from_shared(format!("{scheme}://{}", mock.grpc)).unwrap();
    let endpoint = match tls {
        Some(tls) => endpoint.tls_config(tls.domain_name("localhost")).unwrap(),
        None => endpoint,
    };
    let Ok(channel) = endpoint.connect().await else { return false };
    let reply = InferenceClient::new(channel).generate(request("r", &prompt(1, 20), 2)).await;
    reply.is_ok_and(|reply| outputs(reply.into_inner()).num_tokens == 2)
}

#[tokio::test]
async fn tls_serves_those_who_trust_it_and_mutual_tls_wants_a_client_certificate() {
    let authority = Authority::new();
    let trusting = || ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority.pem()));
    let client = Identity::from_pem(&authority.client.certificate, &authority.client.key);
    let (one_way, mutual) = (start(&authority, false).await, start(&authority, true).await);
    assert!(serves(&one_way, Some(trusting())).await);
    assert!(!serves(&one_way, Some(ClientTlsConfig::new())).await, "an unknown authority");
    assert!(!serves(&one_way, None).await, "no plain text on a TLS port");
    assert!(serves(&mutual, Some(trusting().identity(client))).await);
    assert!(!serves(&mutual, Some(trusting())).await);
}

#[tokio::test]
async fn missing_files_are_named() {
    let files =
        TlsFiles { certificate: "no-such.pem".into(), key: "no-such.pem".into(), client_authority: None };
    let error = MockConfig { tls: Some(files), ..MockConfig::new() }.build().await.unwrap_err();
    assert!(error.to_string().contains("no-such.pem"), "{error}");
}
