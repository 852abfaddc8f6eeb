/// The models a client can ask for, and whether any can be served now. Knows nothing of workers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Catalog {
    /// Every model ever reached, by primary name.
    pub models: Vec<CatalogModel>,
    /// Why service is not possible, one line per cause; empty when everything is well.
    pub reasons: Vec<String>,
}

/// One model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogModel {
    /// Served names, the primary one first; never empty.
    pub names: Vec<String>,
    /// Path or hub name the engine loaded.
    pub source: String,
    /// Of an adapter, the primary name of the model that it adapts.
    pub parent: Option<String>,
    /// Context length in tokens: the smallest among the engines that serve it.
    pub max_model_len: u32,
    /// Largest `n` that one engine can run.
    pub n_max: u32,
    /// Whether a request could be sent to an engine right now.
    pub routable: bool,
}

/// What a model name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution<'a> {
    /// Served now, under this name.
    Served(&'a str, &'a CatalogModel),
    /// Known, but no engine can take a request now.
    Unavailable,
    /// No engine serves that name.
    Unknown,
    /// No name was given and several models are served.
    Ambiguous,
}

impl Catalog {
    /// Resolves the name a client gave, or the only model when it gave none: adapters are never meant without a name.
    pub fn resolve<'a>(&'a self, name: Option<&'a str>) -> Resolution<'a> {
        let Some(name) = name else {
            let mut models = self.models.iter().filter(|model| model.parent.is_none());
            return match (models.next(), models.next()) {
                (Some(model), None) if model.routable => Resolution::Served(&model.names[0], model),
                (_, None) => Resolution::Unavailable,
                (_, Some(_)) => Resolution::Ambiguous,
            };
        };
        let mut known = self.models.iter().filter(|model| model.names.iter().any(|known| known == name));
        match known.clone().find(|model| model.routable) {
            Some(model) => Resolution::Served(name, model),
            None if known.next().is_some() || self.models.is_empty() => Resolution::Unavailable,
            None => Resolution::Unknown,
        }
    }

    /// Models that can be served now: what a client may list.
    pub fn routable(&self) -> impl Iterator<Item = &CatalogModel> {
        self.models.iter().filter(|model| model.routable)
    }
}

#[cfg(test)]
mod tests;
