//! Numbers as JSON text: prompts are lists of them, and long ones are written while requests are sent.

/// Digits of the largest number.
const DIGITS_MAX: usize = 10;

/// Appends a number in decimal.
pub(crate) fn push_decimal(text: &mut Vec<u8>, number: u32) {
    let mut digits = [0; DIGITS_MAX];
    let (mut at, mut left) = (DIGITS_MAX, number);
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests;
