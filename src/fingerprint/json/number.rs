//! Numbers as RFC 8785 has them: doubles, written with the fewest digits that tell them apart.

use super::JsonError;

/// 2⁵³: from here on, doubles have no fractions, and leave integers out.
const FIRST_GAP: f64 = 9_007_199_254_740_992.0;

/// The longest number, in bytes. std takes no exponent for what it is once it outgrows 655,360, and a number
/// that is longer than that needs one to be small.
const MAX_LEN: usize = 64 * 1024;

/// The double that a JSON number stands for, if no other number that is taken stands for it, too. Fractions
/// below 2⁵³ are rounded.
pub(super) fn double(text: &str, at: Option<usize>) -> Result<f64, JsonError> {
    if text.len() > MAX_LEN {
        return Err(JsonError::NumberTooLong { at, max: MAX_LEN });
    }
    let double: f64 = text.parse().map_err(|_| JsonError::NumberOutOfRange { at })?;
    if !double.is_finite() {
        return Err(JsonError::NumberOutOfRange { at });
    }
    // `{:e}` writes the same digits as RFC 8785 does, but for fractions that lie halfway between two of them.
    if double.abs() >= FIRST_GAP && Decimal::of(text) != Decimal::of(&format!("{double:e}")) {
        return Err(JsonError::InexactNumber { at });
    }
    Ok(double)
}

/// The size of a number, in its one form: digits without zeros around them, and the power of ten that they
/// are multiplied by.
#[derive(PartialEq)]
struct Decimal {
    digits: String,
    power: i128,
}

impl Decimal {
    fn of(number: &str) -> Self {
        let (mantissa, power) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = format!("{}{fraction}", whole.trim_start_matches('-'));
        let significant = digits.trim_end_matches('0');
        let behind_the_point = i128::try_from(fraction.len()).unwrap_or(i128::MAX);
        let zeros = digits.len().saturating_sub(significant.len());
        Self {
            digits: significant.trim_start_matches('0').to_owned(),
            power: power
                .parse()
                .unwrap_or(i128::MAX)
                .saturating_sub(behind_the_point)
                .saturating_add(i128::try_from(zeros).unwrap_or(i128::MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: Result<f64, JsonError> = Err(JsonError::InexactNumber { at: Some(7) });

    fn of(text: &str) -> Result<f64, JsonError> {
        double(text, Some(7))
    }

    #[test]
    fn a_number_is_taken_if_its_canonical_form_is_that_very_number() {
        for (text, number) in [
            ("9007199254740991", 9_007_199_254_740_991.0),
            ("9007199254740992", 9_007_199_254_740_992.0),
            ("-9007199254740992.000", -9_007_199_254_740_992.0),
            ("9007199254740994", 9_007_199_254_740_994.0),
            ("900719925474099400e-2", 9_007_199_254_740_994.0),
            ("0.0009007199254740994E+19", 9_007_199_254_740_994.0),
            ("1152921504606847000", 1_152_921_504_606_846_976.0),
            ("1e30", 1e30),
            ("1000000000000000000000000000000", 1e30),
            ("1.7976931348623157e308", f64::MAX),
        ] {
            assert_eq!(of(text), Ok(number), "{text}");
        }
        for text in [
            "9007199254740993",
            "9007199254740993.0",
            "9007199254740993e0",
            "90071992547409930E-1",
            "-9007199254740993",
            "9007199254740991.5",
            "9007199254740992.5",
            "1152921504606846976",
            "18446744073709551615",
            "-9223372036854775808",
            "1000000000000000000000000000001",
            "1000000000000000019884624838656",
            "1.79769313486231571e308",
        ] {
            assert_eq!(of(text), REFUSED, "{text}");
        }
    }

    #[test]
    fn a_number_is_read_as_it_is_written_up_to_the_longest_and_not_beyond_it() {
        let with_zeros = |zeros: usize| format!("0.{}5e{}", "0".repeat(zeros), zeros + 3);
        let longest = with_zeros(MAX_LEN - 9);
        assert_eq!(longest.len(), MAX_LEN);
        assert_eq!(of(&longest), Ok(500.0));
        for zeros in [MAX_LEN - 8, 700_000] {
            let refused = Err(JsonError::NumberTooLong { at: Some(7), max: MAX_LEN });
            assert_eq!(of(&with_zeros(zeros)), refused);
        }
        for (text, number) in [("0e99999999999999999999", 0.0), ("5e-99999999999999999999", 0.0)] {
            assert_eq!(of(text), Ok(number), "{text}");
        }
    }

    #[test]
    fn below_two_to_the_53_fractions_are_rounded() {
        for (text, number) in [
            ("0.1", 0.1),
            ("0.10000000000000001", 0.1),
            ("333333333.33333329", 333_333_333.333_333_3),
            ("9007199254740990.9999999", 9_007_199_254_740_991.0),
            ("1e-400", 0.0),
            ("-0.0", 0.0),
        ] {
            assert_eq!(of(text), Ok(number), "{text}");
        }
    }

    #[test]
    fn a_number_beyond_the_largest_double_is_refused_and_a_long_exponent_is_no_reason() {
        for text in ["1e400", "-1e309", "1e99999999999999999999999999999999999999999999999999"] {
            assert_eq!(of(text), Err(JsonError::NumberOutOfRange { at: Some(7) }), "{text}");
        }
        let zeros = "0".repeat(10_000);
        for text in [
            format!("0.{zeros}1e10017"),
            format!("1{zeros}e-9984"),
            format!("1e{zeros}16"),
            format!("10000000000000000.{zeros}"),
        ] {
            assert_eq!(of(&text), Ok(1e16), "{} bytes", text.len());
        }
        assert_eq!(of(&format!("10000000000000000.{zeros}1")), REFUSED);
    }
}
