use super::*;

#[test]
fn a_list_is_in_order_without_doubles_and_without_served_names() {
    let adapter = |lora_id, name: &str| LoraAdapter {
        lora_id,
        lora_name: name.to_owned(),
        source_path: format!("org/{lora_id}"),
    };
    let answer = ListLorasResponse {
        adapters: vec![
            adapter(5, "b"),
            adapter(1, "a"),
            adapter(2, "m"),
            adapter(3, ""),
            adapter(-1, "c"),
            adapter(6, "b"),
        ],
    };
    let shown: Vec<_> = listed(answer, &["m".to_owned()])
        .into_iter()
        .map(|adapter| format!("{} {} {}", adapter.name, adapter.id, adapter.source))
        .collect();
    assert_eq!(shown, ["a 1 org/1", "b 6 org/6"]);
}

#[test]
fn more_adapters_than_may_be_are_cut_at_the_end_of_the_order() {
    let adapter = |lora_id: i64| LoraAdapter {
        lora_id,
        lora_name: format!("{lora_id:05}"),
        source_path: String::new(),
    };
    let answer = ListLorasResponse { adapters: (0..ADAPTERS_MAX as i64 + 2).rev().map(adapter).collect() };
    let listed = listed(answer, &[]);
    assert_eq!((listed.len(), listed[0].id), (ADAPTERS_MAX, 0));
}
