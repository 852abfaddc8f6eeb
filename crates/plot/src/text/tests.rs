use super::escape;

#[test]
fn a_text_of_others_has_no_markup() {
    assert_eq!(escape("a <b> & \"c\" é"), "a &lt;b&gt; &amp; &quot;c&quot; é");
}
