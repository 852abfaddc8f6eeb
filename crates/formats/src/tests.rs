//! What holds of both formats: every known field, every bad value, every split of an output.

mod docs;
mod mapping;
mod matrix;
mod messages;
mod properties;
mod recorded;

use crate::fields::{self, Field, Listing};
use crate::{Format, OpenAiCompletions, VllmGenerate};

/// A format, its known fields, and the least body it accepts.
struct Subject {
    name: &'static str,
    format: &'static dyn Format,
    listing: Listing,
    least: &'static [(&'static str, &'static str)],
}

const GENERATE: Subject = Subject {
    name: "generate",
    format: &VllmGenerate,
    listing: fields::generate::ALL,
    least: &[("token_ids", "[1,2,3]"), ("sampling_params", "{}")],
};

const COMPLETIONS: Subject = Subject {
    name: "completions",
    format: &OpenAiCompletions,
    listing: fields::completions::ALL,
    least: &[("prompt", "[1,2,3]")],
};

impl Subject {
    /// Every known field with its JSON path.
    fn fields(&self) -> impl Iterator<Item = (String, &'static Field)> {
        self.listing.iter().flat_map(|(object, known)| {
            known.iter().copied().flatten().map(move |field| {
                let path = if object.is_empty() {
                    field.name.to_owned()
                } else {
                    format!("{object}.{}", field.name)
                };
                (path, field)
            })
        })
    }

    /// Those of objects that stand in objects, which [`Self::body`] can set; elements of lists have tests of their own.
    fn settable(&self) -> impl Iterator<Item = (String, &'static Field)> {
        self.fields().filter(|(path, _)| !path.contains("[]"))
    }

    /// The least body with some fields set, each at a JSON path.
    fn body(&self, fields: &[(&str, &str)]) -> String {
        let mut members: Vec<(String, String)> =
            self.least.iter().map(|(name, json)| ((*name).to_owned(), (*json).to_owned())).collect();
        for (path, json) in fields {
            let (top, inner) = path.split_once('.').unwrap_or((path, ""));
            let mut value = (*json).to_owned();
            for name in inner.split('.').rev().filter(|name| !name.is_empty()) {
                value = format!("{{\"{name}\":{value}}}");
            }
            members.retain(|(name, _)| name != top);
            members.push((top.to_owned(), value));
        }
        let members: Vec<_> = members.iter().map(|(name, json)| format!("\"{name}\":{json}")).collect();
        format!("{{{}}}", members.join(","))
    }
}
