use expect_test::expect;

use super::{Axis, Panel};

#[test]
fn a_linear_axis_is_marked_at_round_numbers() {
    let marks = |max| Axis::Linear { max }.marks();
    assert_eq!(marks(10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
    assert_eq!(marks(37.0), [0.0, 10.0, 20.0, 30.0]);
    assert_eq!(marks(0.5), [0.0, 0.1, 0.2, 0.1 + 0.2, 0.4, 0.5]);
}

#[test]
fn a_logarithmic_axis_holds_its_values_between_powers_of_ten() {
    assert_eq!(Axis::log([3.0, 250.0].into_iter()), Axis::Log { first: 0, last: 3 });
    assert_eq!(Axis::log([0.0, 10.0].into_iter()), Axis::Log { first: 1, last: 2 });
    assert_eq!(Axis::log([].into_iter()), Axis::Log { first: 6, last: 7 });
    assert_eq!(Axis::Log { first: -1, last: 1 }.marks(), [0.1, 1.0, 10.0]);
}

#[test]
fn a_value_beyond_an_axis_stays_at_its_end() {
    let axis = Axis::linear([20.0, f64::NAN].into_iter());
    assert_eq!(axis, Axis::Linear { max: 21.0 });
    let places = |axis: Axis, values: [f64; 4]| format!("{:?}", values.map(|value| axis.place(value)));
    assert_eq!(places(axis, [-5.0, 0.0, 10.5, 99.0]), "[0.0, 0.0, 0.5, 1.0]");
    let axis = Axis::Log { first: 0, last: 2 };
    assert_eq!(places(axis, [0.0, 1.0, 10.0, 1e9]), "[0.0, 0.0, 0.5, 1.0]");
    assert_eq!(Axis::linear([0.0].into_iter()), Axis::Linear { max: 1.0 });
}

#[test]
fn a_panel_draws_upwards() {
    let panel = Panel { left: 10.0, top: 20.0, width: 100.0, height: 50.0 };
    let axis = Axis::Linear { max: 2.0 };
    let mut out = String::new();
    panel.title(&mut out, "T").unwrap();
    panel.curve(&mut out, (axis, axis), [(0.0, 0.0), (1.0, 2.0)].into_iter(), "stroke=\"#000\"").unwrap();
    panel.grid_x(&mut out, Axis::Linear { max: 1.0 }, |mark| format!("{mark:.1}")).unwrap();
    panel.grid_y(&mut out, Axis::Log { first: 0, last: 1 }, |mark| format!("{mark}")).unwrap();
    expect![[r##"
        <text x="10.0" y="10.0" text-anchor="start"><tspan font-weight="bold">T</tspan></text>
        <polyline fill="none" stroke-width="2" stroke="#000" points="10.0,70.0 60.0,20.0 "/>
        <line x1="10.0" y1="20.0" x2="10.0" y2="70.0" stroke="#ddd"/>
        <text x="10.0" y="86.0" text-anchor="middle">0.0</text>
        <line x1="30.0" y1="20.0" x2="30.0" y2="70.0" stroke="#ddd"/>
        <text x="30.0" y="86.0" text-anchor="middle">0.2</text>
        <line x1="50.0" y1="20.0" x2="50.0" y2="70.0" stroke="#ddd"/>
        <text x="50.0" y="86.0" text-anchor="middle">0.4</text>
        <line x1="70.0" y1="20.0" x2="70.0" y2="70.0" stroke="#ddd"/>
        <text x="70.0" y="86.0" text-anchor="middle">0.6</text>
        <line x1="90.0" y1="20.0" x2="90.0" y2="70.0" stroke="#ddd"/>
        <text x="90.0" y="86.0" text-anchor="middle">0.8</text>
        <line x1="110.0" y1="20.0" x2="110.0" y2="70.0" stroke="#ddd"/>
        <text x="110.0" y="86.0" text-anchor="middle">1.0</text>
        <line x1="10.0" y1="70.0" x2="110.0" y2="70.0" stroke="#ddd"/>
        <text x="2.0" y="74.0" text-anchor="end">1</text>
        <line x1="10.0" y1="20.0" x2="110.0" y2="20.0" stroke="#ddd"/>
        <text x="2.0" y="24.0" text-anchor="end">10</text>
    "##]]
    .assert_eq(&out.replace("/>", "/>\n").replace("</text>", "</text>\n"));
}
