//! A document between its text, or a [`Value`], and its canonical form.

use super::pointer::index;
use super::{JsonError, number};
use serde::{Serialize, Serializer, ser::Error};
use serde_json::Value;
use std::borrow::Cow;

/// How many levels there may still be. What walks a document recurses, so this is what saves the stack.
#[derive(Clone, Copy)]
pub(super) struct Depth {
    left: usize,
    max: usize,
}

impl Depth {
    pub(super) const fn new(max: usize) -> Self {
        Self { left: max, max }
    }

    /// One level further inside.
    pub(super) fn inside(self) -> Result<Self, JsonError> {
        let left = self.left.checked_sub(1).ok_or(JsonError::TooDeep { max: self.max })?;
        Ok(Self { left, ..self })
    }
}

pub(super) enum Node<'a> {
    Null,
    Bool(bool),
    /// A number that can't be told from others matters only if it counts, which is known later.
    Number(Result<f64, JsonError>),
    String(Cow<'a, str>),
    Array(Vec<Node<'a>>),
    /// No two members have one name.
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
    /// Is not written. It keeps its place, so that pointers count the elements after it as they came.
    Excluded,
}

impl<'a> Node<'a> {
    pub(super) fn of(value: &'a Value, depth: Depth) -> Result<Self, JsonError> {
        Ok(match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            // By its text, since serde_json's features decide what else it can be asked for.
            Value::Number(value) => Self::Number(number::double(&value.to_string(), None)),
            Value::String(value) => Self::String(Cow::Borrowed(value)),
            Value::Array(elements) => {
                let depth = depth.inside()?;
                Self::Array(
                    elements.iter().map(|element| Self::of(element, depth)).collect::<Result<_, _>>()?,
                )
            }
            Value::Object(members) => {
                let depth = depth.inside()?;
                let member = |(name, value): (&'a String, &'a Value)| {
                    Self::of(value, depth).map(|value| (Cow::Borrowed(name.as_str()), value))
                };
                Self::Object(members.iter().map(member).collect::<Result<_, _>>()?)
            }
        })
    }

    /// What a pointer of these tokens leads to.
    pub(super) fn part(&self, tokens: &[String]) -> Option<&Self> {
        tokens.iter().try_fold(self, |node, token| match node {
            Self::Array(elements) => elements.get(index(token)?),
            Self::Object(members) => members.iter().find(|(name, _)| name == token).map(|(_, value)| value),
            _ => None,
        })
    }

    pub(super) fn exclude(&mut self, tokens: &[String]) {
        let part = tokens.iter().try_fold(self, |node, token| match node {
            Self::Array(elements) => elements.get_mut(index(token)?),
            Self::Object(members) => {
                members.iter_mut().find(|(name, _)| name == token).map(|(_, value)| value)
            }
            _ => None,
        });
        if let Some(part) = part {
            *part = Self::Excluded;
        }
    }

    /// The first error of a number.
    pub(super) fn check_numbers(&self) -> Result<(), JsonError> {
        match self {
            Self::Number(Err(error)) => Err(error.clone()),
            Self::Array(elements) => elements.iter().try_for_each(Self::check_numbers),
            Self::Object(members) => members.iter().try_for_each(|(_, value)| value.check_numbers()),
            _ => Ok(()),
        }
    }

    fn counts(&self) -> bool {
        !matches!(self, Self::Excluded)
    }
}

impl Serialize for Node<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null | Self::Excluded => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(Ok(value)) => serializer.serialize_f64(*value),
            Self::Number(Err(error)) => Err(S::Error::custom(error)),
            Self::String(value) => serializer.serialize_str(value),
            Self::Array(elements) => serializer.collect_seq(elements.iter().filter(|value| value.counts())),
            Self::Object(members) => {
                let members = members.iter().filter(|(_, value)| value.counts());
                serializer.collect_map(members.map(|(name, value)| (&**name, value)))
            }
        }
    }
}
