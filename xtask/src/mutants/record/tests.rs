use super::*;

#[test]
fn a_record_is_read_back_and_its_last_word_on_a_mutant_counts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.tsv");
    let mut record = Record::open(&path).unwrap();
    for (outcome, name) in Outcome::ALL.into_iter().zip(["a", "b", "c", "d", "e", "f", "g: replace + with -"])
    {
        record.set("tito-policy", name, outcome).unwrap();
    }
    record.set("tito-policy", "e", Outcome::CaughtAbove).unwrap();

    let read = Record::open(&path).unwrap();
    assert_eq!(read.get("a"), Some(Outcome::Caught));
    assert_eq!(read.get("e"), Some(Outcome::CaughtAbove));
    assert_eq!(read.get("g: replace + with -"), Some(Outcome::Unviable));
    assert_eq!(read.get("h"), None);
    assert_eq!(read.outcomes, record.outcomes);
}

#[test]
fn a_damaged_record_is_refused_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.tsv");
    for line in ["caught", "caught\ttito-policy", "nonsense\ttito-policy\tname"] {
        fs::write(&path, line).unwrap();
        let error = Record::open(&path).err().unwrap().to_string();
        assert!(error.contains(line) && error.contains("delete it"), "{error}");
    }
}
