//! What the targets share.

use tito_formats::{BindContext, Bound, Format, MediaCache, Refusal, SamplingDefaults, Scope};
use tito_types::{Catalog, CatalogModel, RequestId};

/// Any body is bound or refused; nothing panics, and what is bound can be sent.
pub fn bind(format: &dyn Format, body: &[u8]) -> Result<Bound, Refusal> {
    let model = CatalogModel {
        names: vec!["m".into()],
        source: "m".into(),
        max_model_len: 2048,
        n_max: 16,
        routable: true,
        parent: None,
    };
    let catalog = Catalog { models: vec![model], reasons: Vec::new() };
    let context = BindContext {
        catalog: &catalog,
        header_id: None,
        fresh_id: RequestId::parse("fresh").expect("visible ASCII"),
        session: None,
        rank: None,
        worker: None,
        media: &MediaCache::new(1 << 20),
        scope: Scope::SHARED,
        remember: true,
        now_unix_seconds: 0,
        sampling_defaults: SamplingDefaults::Vllm,
        strict: false,
    };
    let bound = format.bind(body, &context)?;
    assert!(!bound.requests.is_empty());
    assert!(bound.requests.iter().all(|request| request.n >= 1 && !request.prompt.is_empty()));
    Ok(bound)
}
