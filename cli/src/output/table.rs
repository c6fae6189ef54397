//! Tables: wrapped to the width of a terminal, and with one line per row for all other output.

use std::io;

use comfy_table::{ContentArrangement, Table, presets};
use terminal_size::{Width, terminal_size_of};

use super::message::sanitize;

/// Renders rows under an optional header.
pub(crate) fn render<const N: usize>(
    header: Option<[&str; N]>,
    rows: &[[String; N]],
    indent: usize,
) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    match terminal_size_of(io::stdout()) {
        Some((Width(width), _)) => {
            let indent = u16::try_from(indent).unwrap_or(0);
            table
                .set_content_arrangement(ContentArrangement::Dynamic)
                .set_width(width.saturating_sub(indent).max(40));
        }
        None => {
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
    }
    if let Some(header) = header {
        table.set_header(header);
    }
    table.add_rows(rows.iter().map(|row| row.iter().map(|cell| sanitize(cell))));
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(&" ".repeat(indent));
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
