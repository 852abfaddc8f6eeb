use tito_types::Modality;

use super::super::{ITEMS_MAX, MODALITIES};
use crate::Refusal;
use crate::fields::generate as fields;
use crate::object::{Object, few};

/// Where an item stands in each of the maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spot {
    /// Which of [`MODALITIES`].
    pub(super) kind: usize,
    /// Its place among the items of its modality.
    at: usize,
}

impl Spot {
    pub(super) fn modality(self) -> Modality {
        MODALITIES[self.kind]
    }

    /// The JSON path of its entry in one of the maps.
    pub(super) fn path(self, map: &str) -> String {
        format!("features.{map}.{}[{}]", self.modality().word(), self.at)
    }
}

/// One map of `features`: for each modality that it names, its entries, unparsed.
pub(super) struct Map<'a> {
    pub(super) name: &'static str,
    /// Absent when the whole map is.
    lists: Option<[Option<Vec<&'a str>>; MODALITIES.len()]>,
}

impl<'a> Map<'a> {
    pub(super) fn read(maps: &Object<'a>, name: &'static str) -> Result<Self, Refusal> {
        let Some(member) = maps.get(name) else { return Ok(Self { name, lists: None }) };
        let map = Object::closed(member.path(), member.raw(), fields::MODALITIES)?;
        let mut lists = [const { None }; MODALITIES.len()];
        for (list, modality) in lists.iter_mut().zip(MODALITIES) {
            *list = map.read(modality.word(), |member| few(member.raw(), ITEMS_MAX, || member.path()))?;
        }
        Ok(Self { name, lists: Some(lists) })
    }

    pub(super) fn given(&self) -> bool {
        self.lists.is_some()
    }

    /// Fails unless both maps name the same modalities with as many entries each.
    pub(super) fn check_shape(&self, other: &Self) -> Result<(), Refusal> {
        for (kind, modality) in MODALITIES.into_iter().enumerate() {
            let (ours, theirs) = (self.list(kind).map(Vec::len), other.list(kind).map(Vec::len));
            if ours != theirs {
                let path = format!("features.{}.{}", self.name, modality.word());
                let count = |entries: Option<usize>| entries.map_or("none".to_owned(), |n| n.to_string());
                let expected = format!("as many entries as {}, {}", other.name, count(theirs));
                return Err(Refusal::invalid(path, format!("must hold {expected}; got {}", count(ours))));
            }
        }
        Ok(())
    }

    /// Entries of all modalities.
    pub(super) fn len(&self) -> usize {
        self.lists.iter().flatten().flatten().map(Vec::len).sum()
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (Spot, &'a str)> {
        (0..MODALITIES.len()).flat_map(move |kind| {
            let list = self.list(kind).into_iter().flatten().enumerate();
            list.map(move |(at, json)| (Spot { kind, at }, *json))
        })
    }

    pub(super) fn get(&self, spot: Spot) -> Option<&'a str> {
        self.list(spot.kind)?.get(spot.at).copied()
    }

    fn list(&self, kind: usize) -> Option<&Vec<&'a str>> {
        self.lists.as_ref()?[kind].as_ref()
    }
}
