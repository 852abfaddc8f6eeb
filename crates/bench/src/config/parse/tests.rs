use crate::config::{Api, ArrivalProcess, Span};

#[test]
fn a_span_is_a_number_or_a_range_and_reads_back() {
    for text in ["0", "512", "128-1024", "7-8"] {
        assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
    }
    assert_eq!("5-5".parse(), Ok(Span { first: 5, last: 5 }));
    for text in ["", "-", "a", "9-1", "1-2-3", "-1", "4294967296", "1..2"] {
        let error = text.parse::<Span>().unwrap_err();
        assert_eq!(error.to_string(), format!("`{text}` is not a number N or a range FIRST-LAST"));
    }
}

#[test]
fn routes_and_arrivals_are_words() {
    assert_eq!("generate".parse(), Ok(Api::Generate));
    assert_eq!("completions".parse(), Ok(Api::Completions));
    assert_eq!("poisson".parse(), Ok(ArrivalProcess::Poisson));
    assert_eq!("constant".parse(), Ok(ArrivalProcess::Constant));
    assert!("chat".parse::<Api>().is_err() && "Poisson".parse::<ArrivalProcess>().is_err());
}
