//! Draws `loyd compare --plot`.

use std::error::Error;
use std::path::{Path, PathBuf};

use plotters::prelude::*;

/// One method's line.
pub(super) struct Series {
    pub(super) name: String,
    /// Optimal length, and the mean of the states expanded for such boards.
    pub(super) points: Vec<(u32, f64)>,
}

const SIZE: (u32, u32) = (1000, 640);

/// Reads where to draw. A name that promises another format would be a lie.
pub(super) fn parse_path(path: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(path);
    match path.extension() {
        Some(extension) if !extension.eq_ignore_ascii_case("svg") => Err(format!(
            "the picture is SVG: name it {}",
            path.with_extension("svg").display()
        )),
        _ => Ok(path),
    }
}

/// Draws expanded states (a logarithmic axis) against optimal length.
pub(super) fn write(path: &Path, series: &[Series]) -> Result<(), Box<dyn Error>> {
    let points = || series.iter().flat_map(|series| &series.points);
    let longest = points().map(|(length, _)| *length).max().unwrap_or(1);
    let most = points().map(|(_, expanded)| *expanded).fold(10.0, f64::max);

    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption("states expanded by optimal length", ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(0..longest + 1, (0.9..most * 1.5).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("moves in a shortest solution")
        .y_desc("states expanded, mean")
        .light_line_style(WHITE)
        .draw()?;
    for (number, series) in series.iter().enumerate() {
        let color = Palette99::pick(number).to_rgba();
        chart
            .draw_series(LineSeries::new(
                series.points.iter().copied(),
                color.stroke_width(2),
            ))?
            .label(&series.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(3)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    root.present()?;
    Ok(())
}
