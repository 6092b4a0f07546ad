//! What may be a scope or a key, told once more than the crate tells it.

/// 1 to 255 bytes, no control character (Unicode's Cc), not only white space (Unicode's `White_Space`).
pub fn is_name(value: &str) -> bool {
    let is_control = |c: char| matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}');
    (1..=255).contains(&value.len()) && !value.chars().any(is_control) && !is_blank(value)
}

/// Nothing but white space, or nothing at all.
pub fn is_blank(value: &str) -> bool {
    value.chars().all(|c| {
        matches!(
            c,
            '\u{9}'..='\u{d}'
                | ' '
                | '\u{85}'
                | '\u{a0}'
                | '\u{1680}'
                | '\u{2000}'..='\u{200a}'
                | '\u{2028}'
                | '\u{2029}'
                | '\u{202f}'
                | '\u{205f}'
                | '\u{3000}'
        )
    })
}
