//! A chart as SVG: on white, so that it can be read on a dark page, too.
//!
//! The horizontal axis has the measured places at equal distances. Up to three of them are drawn as groups of
//! bars, more as lines, and what spans decades as lines on an axis of decades.

use crate::measured::{Line, Series, short};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::error::Error;
use std::path::Path;

const SIZE: (u32, u32) = (880, 400);
/// Left of the legend.
const LEGEND: i32 = 590;
const TOP: i32 = 72;
const FONT: &str = "sans-serif";
const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
const FAINT: RGBColor = RGBColor(0x66, 0x66, 0x66);
const RULE: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);
/// Told apart by who sees no red or no green, too; the first, for this crate, is the strongest.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0x00, 0x4f, 0x9f),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x8c, 0x8c, 0x8c),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0xcc, 0x79, 0xa7),
];
/// Charts with more places than this have lines.
const MOST_GROUPS: usize = 3;
/// Up to so many times its lowest number, an axis begins with 0; beyond, each rule is ten times the one below.
const MOST_LINEAR: f64 = 30.0;
/// How much of a group's place its bars take.
const GROUP_WIDTH: f64 = 0.84;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type Drawn<T = ()> = Result<T, Box<dyn Error>>;

pub fn draw(series: &Series, file: &Path) -> Drawn {
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    write(&area, &series.title, (20, 16), 20, INK)?;
    write(&area, &format!("{}, by {}", series.y, series.x), (20, 44), 14, FAINT)?;
    let (places, scale) = (series.places(), Scale::of(series));
    let right = i32::try_from(SIZE.0)? - LEGEND;
    let mut chart = ChartBuilder::on(&area)
        .margin_left(8)
        .margin_right(right + 14)
        .margin_top(TOP)
        .margin_bottom(12)
        .x_label_area_size(34)
        .y_label_area_size(56)
        .build_cartesian_2d(-0.5..last(places.len()) + 0.5, 0.0..1.0)?;
    rules(&area, &chart, &scale, places.len())?;
    for (n, place) in places.iter().enumerate() {
        let (x, y) = chart.backend_coord(&(last(n + 1), 0.0));
        let style = style(14, INK).pos(Pos::new(HPos::Center, VPos::Top));
        area.draw(&Text::new(short(*place), (x, y + 10), style))?;
    }
    if places.len() > MOST_GROUPS || !scale.is_linear {
        lines(&mut chart, &series.lines, &places, &scale)?;
    } else {
        bars(&area, &chart, &series.lines, &places, &scale)?;
    }
    legend(&area, &series.lines)?;
    area.present()?;
    Ok(())
}

/// The upright axis: where a number stands, from 0 to 1.
struct Scale {
    ticks: Vec<f64>,
    is_linear: bool,
}

impl Scale {
    fn of(series: &Series) -> Self {
        let values = series.lines.iter().flat_map(|line| &line.points).map(|point| point.1);
        let (lowest, highest) = (values.clone().fold(f64::INFINITY, f64::min), values.fold(0.0, f64::max));
        let is_linear = highest <= lowest * MOST_LINEAR || lowest <= 0.0;
        let ticks = if is_linear { steps(highest) } else { decades(lowest, highest) };
        Self { ticks, is_linear }
    }

    fn share(&self, value: f64) -> f64 {
        let on_axis = |value: f64| if self.is_linear { value } else { value.log10() };
        match (self.ticks.first(), self.ticks.last()) {
            (Some(first), Some(last)) => {
                (on_axis(value) - on_axis(*first)) / (on_axis(*last) - on_axis(*first))
            }
            _ => 0.0,
        }
    }
}

/// Round numbers from 0 to beyond `highest`.
fn steps(highest: f64) -> Vec<f64> {
    let power = 10_f64.powf((highest / 5.0).log10().floor());
    let step = [1.0, 2.0, 5.0].map(|digit| digit * power).into_iter().find(|step| step * 5.0 >= highest);
    let step = step.unwrap_or(10.0 * power);
    // A little more than the highest, so that its number has room.
    (0_u32..).map(|n| f64::from(n) * step).take_while(|tick| *tick < highest * 1.04 + step).collect()
}

/// The powers of ten around all.
fn decades(lowest: f64, highest: f64) -> Vec<f64> {
    let first = 10_f64.powf(lowest.log10().floor());
    (0..).map(|n| first * 10_f64.powi(n)).take_while(|tick| *tick < highest * 10.0).collect()
}

fn rules(area: &Area<'_>, chart: &Chart<'_, '_>, scale: &Scale, places: usize) -> Drawn {
    for (n, tick) in scale.ticks.iter().enumerate() {
        let left = chart.backend_coord(&(-0.5, scale.share(*tick)));
        let right = chart.backend_coord(&(last(places) + 0.5, scale.share(*tick)));
        area.draw(&PathElement::new([left, right], if n == 0 { FAINT } else { RULE }))?;
        let style = style(13, FAINT).pos(Pos::new(HPos::Right, VPos::Center));
        area.draw(&Text::new(short(*tick), (left.0 - 8, left.1), style))?;
    }
    Ok(())
}

/// The last of `count` places on the axis.
fn last(count: usize) -> f64 {
    u32::try_from(count).map_or(0.0, |count| f64::from(count) - 1.0)
}

fn colour(n: usize) -> RGBColor {
    COLOURS[n % COLOURS.len()]
}

fn place_of(places: &[f64], x: f64) -> f64 {
    places.iter().position(|place| *place == x).map_or(0.0, |n| last(n + 1))
}

fn lines(chart: &mut Chart<'_, '_>, lines: &[Line], places: &[f64], scale: &Scale) -> Drawn {
    // The first is drawn last, over the others.
    for (n, line) in lines.iter().enumerate().rev() {
        let points: Vec<(f64, f64)> =
            line.points.iter().map(|point| (place_of(places, point.0), scale.share(point.1))).collect();
        let style = colour(n).stroke_width(if n == 0 { 3 } else { 2 });
        chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
        chart.draw_series(points.iter().map(|point| Circle::new(*point, 4, colour(n).filled())))?;
    }
    Ok(())
}

/// Bars side by side, each with its number on it.
fn bars(area: &Area<'_>, chart: &Chart<'_, '_>, lines: &[Line], places: &[f64], scale: &Scale) -> Drawn {
    let width = GROUP_WIDTH / (last(lines.len()) + 1.0);
    for (n, line) in lines.iter().enumerate() {
        for (x, y) in &line.points {
            let left = place_of(places, *x) - GROUP_WIDTH / 2.0 + width * last(n + 1);
            let (low, high) =
                (chart.backend_coord(&(left, 0.0)), chart.backend_coord(&(left + width, scale.share(*y))));
            let corners = [(low.0 + 1, high.1), (high.0 - 1, low.1)];
            area.draw(&Rectangle::new(corners, colour(n).filled()))?;
            let middle = low.0.midpoint(high.0);
            let style = style(12, INK).pos(Pos::new(HPos::Center, VPos::Bottom));
            area.draw(&Text::new(short(*y), (middle, high.1 - 3), style))?;
        }
    }
    Ok(())
}

fn legend(area: &Area<'_>, lines: &[Line]) -> Drawn {
    let mut y = TOP;
    for (n, line) in lines.iter().enumerate() {
        area.draw(&Rectangle::new([(LEGEND, y), (LEGEND + 14, y + 14)], colour(n).filled()))?;
        write(area, &line.name, (LEGEND + 22, y + 1), 13, INK)?;
        y += 26;
    }
    Ok(())
}

fn style(size: u32, colour: RGBColor) -> TextStyle<'static> {
    (FONT, size).into_font().color(&colour)
}

fn write(area: &Area<'_>, text: &str, at: (i32, i32), size: u32, colour: RGBColor) -> Drawn {
    Ok(area.draw(&Text::new(text.to_owned(), at, style(size, colour)))?)
}
