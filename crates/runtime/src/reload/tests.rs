use futures_util::FutureExt;

use super::*;

#[test]
fn every_listener_hears_a_request_once() {
    let (trigger, mut one) = reload();
    let mut two = one.clone();
    assert!(one.requested().now_or_never().is_none());
    trigger.fire();
    trigger.fire();
    assert!(one.requested().now_or_never().is_some());
    assert!(one.requested().now_or_never().is_none());
    assert!(two.requested().now_or_never().is_some());
    drop(trigger);
    assert!(two.requested().now_or_never().is_none());
}
