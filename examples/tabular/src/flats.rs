//! The data: flats and their rents, by a formula that is known, as a CSV file with holes.
use adamant::data::Draw;
use std::{fmt::Write as _, fs, io, path::Path};

/// Quarters of the town, and what a square metre costs there.
const QUARTERS: [(&str, f64); 12] = [
    ("docks", 9.0),
    ("east", 10.0),
    ("gardens", 16.5),
    ("harbour", 19.0),
    ("hill", 18.0),
    ("market", 14.0),
    ("mills", 8.5),
    ("north", 11.0),
    ("old town", 17.0),
    ("park", 15.0),
    ("station", 12.0),
    ("west", 13.0),
];
/// The standard deviation of what the formula does not tell.
const NOISE: f64 = 40.0;

/// One flat, whole.
struct Flat {
    quarter: usize,
    area: f64,
    floor: usize,
    age: f64,
    renovated: Option<f64>,
    rent: f64,
    noise: f64,
}
fn flat(seed: u64, index: usize) -> Flat {
    let mut rng = Draw { seed, epoch: 0, index }.rng();
    let (quarter, area, floor, age) = (rng.below(QUARTERS.len()), rng.range(20.0, 120.0), rng.below(7), rng.range(0.0, 100.0));
    // Half of the older flats were renovated once; of the others the file says nothing.
    let renovated = (age > 20.0 && rng.chance(0.5)).then(|| rng.range(0.0, age.min(30.0)));
    // What is new, or was made new, costs up to 40 % more, which fades over the years.
    let shine = 0.4 * (-renovated.unwrap_or(age) / 12.0).exp();
    let stairs = if floor > 3 { -8.0 * (floor - 3) as f64 } else { 0.0 };
    let noise = NOISE * rng.normal();
    Flat { quarter, area, floor, age, renovated, rent: area * QUARTERS[quarter].1 * (1.0 + shine) + stairs + noise, noise }
}

/// Writes a table of flats. Of the fields, one in twelve is empty; of those about a renovation, each where there was none.
/// Returns the R² that the formula itself would have, which no model can beat for long.
///
/// # Errors
/// The file cannot be written.
pub fn write(path: &Path, seed: u64, rows: usize) -> io::Result<f64> {
    let mut text = String::from("quarter,area,floor,age,renovated,rent\n");
    let (mut sum, mut squares, mut noise) = (0.0, 0.0, 0.0);
    for index in 0..rows {
        let f = flat(seed, index);
        let mut holes = Draw { seed: !seed, epoch: 0, index }.rng();
        let mut field = |value: String| if holes.chance(1.0 / 12.0) { String::new() } else { value };
        let (quarter, area, floor) = (field(QUARTERS[f.quarter].0.into()), field(format!("{:.1}", f.area)), field(f.floor.to_string()));
        let (age, renovated) = (field(format!("{:.0}", f.age)), f.renovated.map_or_else(String::new, |years| format!("{years:.1}")));
        // A String takes all that is written to it.
        let _ = writeln!(text, "{quarter},{area},{floor},{age},{renovated},{:.0}", f.rent);
        (sum, squares, noise) = (sum + f.rent, squares + f.rent * f.rent, noise + f.noise * f.noise);
    }
    fs::write(path, text)?;
    Ok(1.0 - noise / (squares - sum * sum / rows as f64))
}
