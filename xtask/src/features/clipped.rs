//! Clipping in plain f64, which clipping on devices is compared with.
use adamant::optim::{ClippingOptions, ClippingType};

pub fn norm(values: &[f64]) -> f64 {
    values.iter().map(|v| v * v).sum::<f64>().sqrt()
}
/// What a kind makes of gradients, in plain f64: its histories are here.
pub struct PlainClipper {
    options: ClippingOptions,
    norms: Vec<f64>,
    threshold: f64,
    moments: Option<(f64, f64)>,
}
impl PlainClipper {
    pub fn new(options: ClippingOptions) -> PlainClipper {
        PlainClipper { threshold: options.max_norm, options, norms: Vec::new(), moments: None }
    }
    /// Gradients by parameter, with their weights: path, rows' length, gradient, weight.
    pub fn clip(&mut self, all: &[(String, usize, Vec<f64>, Vec<f64>)]) -> Vec<Vec<f64>> {
        let o = self.options.clone();
        let flat: Vec<f64> = all.iter().flat_map(|(_, _, g, _)| g.clone()).collect();
        let total = norm(&flat);
        let scaled = |limit: f64| -> Vec<Vec<f64>> {
            let scale = (limit / (total + 1e-6)).min(1.0);
            all.iter().map(|(_, _, g, _)| g.iter().map(|v| v * scale).collect()).collect()
        };
        let cut = |limit: f64| -> Vec<Vec<f64>> { all.iter().map(|(_, _, g, _)| g.iter().map(|v| v.clamp(-limit, limit)).collect()).collect() };
        match o.clipping_type {
            ClippingType::Norm | ClippingType::GlobalNorm => scaled(o.max_norm),
            ClippingType::Value => cut(o.max_value),
            ClippingType::Percentile => {
                let mut sizes: Vec<f64> = flat.iter().map(|v| v.abs()).collect();
                sizes.sort_by(f64::total_cmp);
                let rank = o.percentile_threshold / 100.0 * (sizes.len() - 1) as f64;
                let (low, high) = (sizes[rank.floor() as usize], sizes[rank.ceil() as usize]);
                cut(low + (high - low) * (rank - rank.floor()))
            }
            ClippingType::LayerWise => {
                let layer = |path: &str| path.rsplit_once('.').map_or(path.to_string(), |(layer, _)| layer.to_string());
                let of = |path: &str| -> f64 {
                    let same: Vec<f64> = all.iter().filter(|(other, ..)| layer(other) == layer(path)).flat_map(|(_, _, g, _)| g.clone()).collect();
                    norm(&same)
                };
                let limit = |path: &str| if layer(path) == "0" { o.layer_norm_thresholds[0].1 } else { o.max_norm };
                all.iter().map(|(path, _, g, _)| g.iter().map(|v| v * (limit(path) / (of(path) + 1e-6)).min(1.0)).collect()).collect()
            }
            ClippingType::Adaptive => {
                let last = &self.norms[self.norms.len().saturating_sub(10)..];
                let limit = if last.is_empty() { f64::INFINITY } else { last.iter().sum::<f64>() / last.len() as f64 * o.adaptive_factor };
                self.norms.push(total);
                scaled(limit)
            }
            ClippingType::Exponential => {
                self.threshold = o.exponential_alpha * self.threshold + (1.0 - o.exponential_alpha) * total;
                scaled(self.threshold.max(o.exponential_min_threshold))
            }
            ClippingType::Agc => {
                let rows = |(_, row, g, w): &(String, usize, Vec<f64>, Vec<f64>)| -> Vec<f64> {
                    let each = |(g, w): (&[f64], &[f64])| {
                        let most = norm(w).max(o.agc_eps) * o.agc_clipping;
                        let scale = if norm(g) > most { most / norm(g).max(1e-6) } else { 1.0 };
                        g.iter().map(move |v| v * scale).collect::<Vec<f64>>()
                    };
                    g.chunks(*row).zip(w.chunks(*row)).flat_map(each).collect()
                };
                all.iter().map(rows).collect()
            }
            ClippingType::ZClip => {
                self.norms.push(total);
                let warm_up = o.z_warm_up as usize;
                if self.norms.len() <= warm_up {
                    if self.norms.len() == warm_up {
                        let mean = self.norms.iter().sum::<f64>() / warm_up as f64;
                        self.moments = Some((mean, self.norms.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / warm_up as f64));
                    }
                    return scaled(f64::INFINITY);
                }
                let (mean, variance) = self.moments.unwrap_or_default();
                let deviation = variance.sqrt();
                let z = (total - mean) / deviation.max(1e-6);
                let kept = if z > o.z_threshold { mean + o.z_threshold * o.z_threshold * deviation / z } else { total };
                let mean_next = o.z_alpha * mean + (1.0 - o.z_alpha) * kept;
                self.moments = Some((mean_next, o.z_alpha * variance + (1.0 - o.z_alpha) * (kept - mean_next).powi(2)));
                scaled(if z > o.z_threshold { kept } else { f64::INFINITY })
            }
        }
    }
}
