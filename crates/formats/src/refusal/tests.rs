use super::*;

#[test]
fn a_message_names_its_field_where_it_speaks_of_it() {
    assert_eq!(
        sentence(Some("sampling_params.top_p"), "must be above 0"),
        "sampling_params.top_p must be above 0"
    );
    assert_eq!(sentence(Some("sampling_params"), "is required"), "sampling_params is required");
    assert_eq!(
        sentence(Some("prompt"), "text prompts are not served yet"),
        "text prompts are not served yet"
    );
    assert_eq!(sentence(None, "must be JSON"), "must be JSON");
}
