use super::*;

fn adapter(lora_id: i64, name: &str) -> LoraAdapter {
    LoraAdapter { lora_id, lora_name: name.to_owned(), source_path: format!("org/{lora_id}") }
}

#[test]
fn a_list_is_in_order_without_doubles_and_without_served_names() {
    let adapters = [(5, "b"), (1, "a"), (2, "m"), (3, ""), (-1, "c"), (6, "b")];
    let adapters = adapters.map(|(lora_id, name)| adapter(lora_id, name)).into();
    let listed = listed(ListLorasResponse { adapters }, &["m".to_owned()]);
    let show = |adapter: &Adapter| format!("{} {} {}", adapter.name, adapter.id, adapter.source);
    assert_eq!(listed.iter().map(show).collect::<Vec<_>>(), ["a 1 org/1", "b 6 org/6"]);
}

#[test]
fn more_adapters_than_may_be_are_cut_at_the_end_of_the_order() {
    let ids = (0..ADAPTERS_MAX as i64 + 2).rev();
    let adapters = ids.map(|lora_id| adapter(lora_id, &format!("{lora_id:05}"))).collect();
    let listed = listed(ListLorasResponse { adapters }, &[]);
    assert_eq!((listed.len(), listed[0].id), (ADAPTERS_MAX, 0));
}
