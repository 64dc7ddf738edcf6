//! `seqio query`: a SQL query over the data of a task.

use crate::args::QueryArgs;
use crate::output::Out;
use crate::session::Session;

/// Runs the command.
#[cfg(not(feature = "sql"))]
pub(crate) fn run(_session: &Session, _args: &QueryArgs, _out: &mut Out) -> anyhow::Result<()> {
    Err(crate::report::usage("this program was built without SQL: build it with the feature `sql`"))
}

/// Runs the command.
#[cfg(feature = "sql")]
pub(crate) fn run(session: &Session, args: &QueryArgs, out: &mut Out) -> anyhow::Result<()> {
    with_sql::run(session, args, out)
}

#[cfg(feature = "sql")]
mod with_sql {
    use std::io::{Read as _, Write as _};

    use anyhow::Context as _;
    use seqio::{Query, type_name};
    use serde::Serialize;

    use crate::args::QueryArgs;
    use crate::interrupt::Interrupt;
    use crate::output::{Align, Out, Style, Table};
    use crate::query::{QueryData, Reading, RowFormat, RowWriter};
    use crate::session::Session;

    /// Rows shown on a terminal, unless another number is asked for.
    const ROWS_ON_A_TERMINAL: u64 = 100;

    pub(super) fn run(session: &Session, args: &QueryArgs, out: &mut Out) -> anyhow::Result<()> {
        let interrupt = Interrupt::listen()?;
        interrupt.told(ask(session, args, &interrupt, out), "nothing is kept of a query; run it again")
    }

    fn ask(session: &Session, args: &QueryArgs, interrupt: &Interrupt, out: &mut Out) -> anyhow::Result<()> {
        let open = || QueryData::open(session, args, interrupt, out.notes());
        if args.tables {
            return list(&open()?, args, out);
        }
        let sql = text(args)?;
        // Before anything is opened: a mistake in the query shows at once.
        let names = Query::table_names(&sql)?;
        let reading = Reading::new(out.notes().quiet);
        let data = if names.is_empty() { None } else { Some(open()?) };
        let tables = data.as_ref().map(|data| data.tables(&names)).transpose()?.unwrap_or_default();
        let tables = reading.watch(tables);
        let memory = data.as_ref().map_or(args.memory, |data| data.memory(&names));
        let query = Query::new(&sql, tables, interrupt.budget(memory))?;
        let shown = show(&query, args, &reading, out);
        reading.end();
        data.iter().for_each(QueryData::tell_passed_over);
        shown
    }

    fn text(args: &QueryArgs) -> anyhow::Result<String> {
        match args.sql.as_deref() {
            Some("-") => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text).context("cannot read the query")?;
                Ok(text)
            }
            sql => Ok(sql.unwrap_or_default().to_owned()),
        }
    }

    fn show(query: &Query, args: &QueryArgs, reading: &Reading, out: &mut Out) -> anyhow::Result<()> {
        let format = match (args.json, args.csv) {
            (true, _) => RowFormat::JsonLines,
            (_, true) => RowFormat::Csv,
            _ => RowFormat::Table { terminal: out.terminal, paint: out.paint },
        };
        let of_itself = out.terminal.then_some(ROWS_ON_A_TERMINAL);
        let limit = args.limit.or(of_itself).unwrap_or(u64::MAX);
        let mut writer = RowWriter::new(format, query.columns());
        let mut left = limit;
        let mut more = false;
        writer.begin(out)?;
        for batch in query.run()? {
            let batch = batch?;
            if left < batch.num_rows() as u64 {
                more = true;
            }
            let rows = batch.slice(0, batch.num_rows().min(usize::try_from(left).unwrap_or(usize::MAX)));
            left -= rows.num_rows() as u64;
            reading.clear();
            writer.write(&rows, out)?;
            // The one row more that says whether there are others is not worth waiting for.
            if more || (left == 0 && args.limit.is_some()) {
                break;
            }
        }
        reading.clear();
        writer.end(out)?;
        out.flush()?;
        if more && args.limit.is_none() {
            out.notes().note(format!("these are the first {limit} rows; `--limit N` shows others"));
        }
        Ok(())
    }

    #[derive(Serialize)]
    struct ListedTable {
        table: &'static str,
        summary: &'static str,
        /// `None` for a table that cannot be read here.
        columns: Option<Vec<ListedColumn>>,
    }

    #[derive(Serialize)]
    struct ListedColumn {
        name: String,
        #[serde(rename = "type")]
        type_name: String,
    }

    fn list(data: &QueryData<'_>, args: &QueryArgs, out: &mut Out) -> anyhow::Result<()> {
        let tables = data.columns().into_iter().map(|(table, summary, columns)| {
            let column = |field: &arrow::datatypes::FieldRef| ListedColumn {
                name: field.name().clone(),
                type_name: type_name(field.data_type()),
            };
            let columns = columns.map(|columns| columns.fields().iter().map(column).collect());
            ListedTable { table, summary, columns }
        });
        let tables: Vec<ListedTable> = tables.collect();
        if args.json {
            return out.json(&tables);
        }
        for table in &tables {
            writeln!(out, "{}  {}", out.paint.text(Style::Strong, table.table), table.summary)?;
            let Some(columns) = &table.columns else {
                writeln!(out, "  not here: the source is not known\n")?;
                continue;
            };
            let mut lines = Table::new([("", Align::Left), ("", Align::Left)]);
            columns.iter().for_each(|column| lines.row([column.name.clone(), column.type_name.clone()]));
            let paint = out.paint;
            lines.write(out, paint, 2)?;
            writeln!(out)?;
        }
        Ok(())
    }
}
