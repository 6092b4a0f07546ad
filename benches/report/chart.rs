//! Line charts as SVG.

use std::fmt::Write;

const WIDTH: f64 = 720.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 50.0;
const HEIGHT: f64 = 280.0;
/// Below the plot: the numbers and the name of the axis.
const AXIS: f64 = 60.0;
/// Of each name of a line.
const LEGEND: f64 = 20.0;

/// Told apart with any eyes (Okabe and Ito).
const COLOURS: [&str; 6] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];

/// Up to so many times its smallest value, an axis starts at 0; beyond, each step is ten times the one before.
const LINEAR: f64 = 30.0;

pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// Lines over a few places, which stand evenly spaced.
pub struct Chart {
    pub title: String,
    pub x: String,
    pub y: String,
    pub lines: Vec<Line>,
}

impl Chart {
    pub fn to_svg(&self) -> String {
        let mut places: Vec<f64> = self.points().map(|(x, _)| x).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let step = (WIDTH - LEFT - RIGHT) / (float(places.len()) - 1.0).max(1.0);
        let x_of = |x: f64| LEFT + step * float(places.iter().take_while(|place| **place < x).count());
        let scale = Scale::of(self.points().map(|(_, y)| y));
        let bottom = TOP + HEIGHT;
        let y_of = |y: f64| bottom - HEIGHT * scale.share(y);
        let total = bottom + AXIS + LEGEND * float(self.lines.len());
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {total}\" font-family=\"sans-serif\" \
             font-size=\"13\" fill=\"#333\">\n<rect width=\"{WIDTH}\" height=\"{total}\" fill=\"#fff\"/>\n"
        );
        text(&mut svg, (LEFT, 24.0), "start", &format!("{}: {} by {}", self.title, self.y, self.x));
        for tick in &scale.ticks {
            let y = y_of(*tick);
            line(&mut svg, "#ddd", 1.0, &[(LEFT, y), (WIDTH - RIGHT, y)]);
            text(&mut svg, (LEFT - 8.0, y + 4.0), "end", &grouped(*tick));
        }
        for place in &places {
            text(&mut svg, (x_of(*place), bottom + 20.0), "middle", &grouped(*place));
        }
        text(&mut svg, (f64::midpoint(LEFT, WIDTH - RIGHT), bottom + 42.0), "middle", &self.x);
        for (number, (own, colour)) in self.lines.iter().zip(COLOURS.iter().cycle()).enumerate() {
            let points: Vec<_> = own.points.iter().map(|(x, y)| (x_of(*x), y_of(*y))).collect();
            line(&mut svg, colour, 2.5, &points);
            for (x, y) in points {
                let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" fill=\"{colour}\"/>");
            }
            let y = bottom + AXIS + LEGEND * float(number);
            line(&mut svg, colour, 2.5, &[(LEFT, y), (LEFT + 24.0, y)]);
            text(&mut svg, (LEFT + 32.0, y + 4.0), "start", &own.name);
        }
        svg + "</svg>\n"
    }

    fn points(&self) -> impl Iterator<Item = (f64, f64)> + Clone {
        self.lines.iter().flat_map(|line| line.points.iter().copied())
    }
}

/// The upright axis.
struct Scale {
    ticks: Vec<f64>,
    is_linear: bool,
}

impl Scale {
    fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let (min, max) = (values.clone().fold(f64::INFINITY, f64::min), values.fold(0.0, f64::max));
        if max <= min * LINEAR {
            let power = 10_f64.powf((max / 5.0).log10().floor());
            let step =
                [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|step| step * 5.0 >= max);
            let step = step.expect("ten times the power is enough");
            let mut ticks = vec![0.0];
            while ticks[ticks.len() - 1] < max {
                ticks.push(ticks[ticks.len() - 1] + step);
            }
            return Self { ticks, is_linear: true };
        }
        let mut ticks = vec![10_f64.powf(min.log10().floor())];
        while ticks[ticks.len() - 1] < max {
            ticks.push(ticks[ticks.len() - 1] * 10.0);
        }
        Self { ticks, is_linear: false }
    }

    /// How far up `value` stands, from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let (first, last) = (self.ticks[0], self.ticks[self.ticks.len() - 1]);
        if self.is_linear {
            (value - first) / (last - first)
        } else {
            (value / first).log10() / (last / first).log10()
        }
    }
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ = writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}

fn line(svg: &mut String, colour: &str, width: f64, points: &[(f64, f64)]) {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let points = points.join(" ");
    let _ = writeln!(
        svg,
        "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"/>"
    );
}

/// With a space after each thousand.
fn grouped(value: f64) -> String {
    let digits = format!("{value}");
    let (whole, rest) = digits.split_once('.').map_or((digits.as_str(), String::new()), |(whole, rest)| {
        (whole, format!(".{}", rest.chars().take(3).collect::<String>()))
    });
    let mut grouped = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) {
            grouped.push(' ');
        }
        grouped.push(digit);
    }
    grouped + &rest
}

#[expect(clippy::cast_precision_loss, reason = "a count far below 2^52")]
fn float(count: usize) -> f64 {
    count as f64
}
