//! A chat template, set up as Hugging Face does: Jinja with white space around blocks removed, loop controls, methods of
//! Python's strings, `tojson`, `raise_exception`, `strftime_now` and `{% generation %}` blocks.
//!
//! ```text
//! messages  [{role: user, content: Hi}]   ->   <|im_start|>user\nHi<|im_end|>\n
//! ```

use std::error::Error as _;
use std::fmt;

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Error, ErrorKind, Value};
use minijinja_contrib::pycompat::unknown_method_callback;

use super::date::Date;
use super::marks::Written;
use super::{tags, value};

const NAME: &str = "template";

/// A template, ready to be filled.
pub(super) struct Template {
    environment: Environment<'static>,
    /// Whether it says itself what counts, by `{% generation %}` blocks.
    pub(super) has_blocks: bool,
    /// What every example sees: tokens and variables.
    shared: Vec<(String, Value)>,
}

/// What a template sees of one example.
#[derive(Clone, Debug, Default)]
pub(super) struct Conversation {
    pub(super) messages: Vec<Value>,
    /// Other columns by name.
    pub(super) values: Vec<(String, Value)>,
}

impl Template {
    /// Reads the template.
    pub(super) fn new(text: &str, shared: Vec<(String, Value)>, date: Option<Date>) -> Result<Self, String> {
        let (text, has_blocks) = tags::rewrite(text);
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| in_words(&error))?);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_unknown_method_callback(unknown_method_callback);
        environment.add_filter("tojson", value::tojson);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", move |format: String| -> Result<String, Error> {
            let Some(date) = date else {
                let problem = "it asks for today's date, and examples may not depend on the day: fix one, as \
                               `date = \"2024-07-26\"`";
                return Err(Error::new(ErrorKind::InvalidOperation, problem));
            };
            date.format(&format).map_err(|code| {
                let problem = format!("`strftime_now` does not know `{code}`");
                Error::new(ErrorKind::InvalidOperation, problem)
            })
        });
        environment.add_template_owned(NAME, text).map_err(|error| in_words(&error))?;
        Ok(Self { environment, has_blocks, shared })
    }

    /// What the template makes of the first `messages` of a conversation; with `prompts` it goes on to where the next
    /// answer begins.
    pub(super) fn fill(
        &self,
        conversation: &Conversation,
        messages: usize,
        prompts: bool,
    ) -> Result<Written, String> {
        let messages = &conversation.messages[..messages.min(conversation.messages.len())];
        let mut context: Vec<(String, Value)> = vec![
            ("messages".to_owned(), Value::from(messages)),
            ("tools".to_owned(), Value::from(())),
            ("documents".to_owned(), Value::from(())),
            ("add_generation_prompt".to_owned(), Value::from(prompts)),
        ];
        context.extend(self.shared.iter().cloned());
        context.extend(conversation.values.iter().cloned());
        let template = self.environment.get_template(NAME).map_err(|error| in_words(&error))?;
        let marked = template.render(Value::from_pairs(context)).map_err(|error| in_words(&error))?;
        Ok(Written::read(&marked))
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template").field("has_blocks", &self.has_blocks).finish_non_exhaustive()
    }
}

/// What a template says against an example.
#[derive(Debug)]
struct Raised(String);

impl fmt::Display for Raised {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message.clone()).with_source(Raised(message)))
}

/// What went wrong, with the line of the template.
fn in_words(error: &Error) -> String {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(Raised(message)) = inner.downcast_ref() {
            return format!("the template refuses it: {message}");
        }
        cause = inner.source();
    }
    let line = error.line().map_or(String::new(), |line| format!("line {line} of the template: "));
    match error.detail() {
        Some(detail) => format!("{line}{}: {detail}", error.kind()),
        None => format!("{line}{}", error.kind()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(template: &str, json: &str) -> Result<String, String> {
        let date = Date::parse("2024-07-26");
        let shared = vec![("bos_token".to_owned(), Value::from("<s>"))];
        let template = Template::new(template, shared, date)?;
        let messages = value::parse(json, &|text| Ok(text.to_owned())).unwrap();
        let messages: Vec<Value> = messages.try_iter().unwrap().collect();
        let count = messages.len();
        Ok(template.fill(&Conversation { messages, values: Vec::new() }, count, true)?.text)
    }

    const PAIR: &str = r#"[{"role": "user", "content": " Hi "}, {"role": "assistant", "content": "Ho"}]"#;

    #[test]
    fn templates_find_what_they_find_at_hugging_face() {
        for (template, text) in [
            (
                "{{ bos_token }}{% for m in messages %}\n  {% if loop.first %}\n{{ m['content'].strip() }}|\n  {% endif %}\n{% endfor %}\n",
                "<s>Hi|\n",
            ),
            (
                "{% for m in messages %}{% if loop.index0 == 1 %}{% break %}{% endif %}{{ m.role }}{% endfor %}",
                "user",
            ),
            (
                "{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
                "2",
            ),
            ("{% macro x(a) %}[{{ a }}]{% endmacro %}{{ x(messages[-1].role) }}", "[assistant]"),
            ("{{ messages[0] | tojson }}", r#"{"role": "user", "content": " Hi "}"#),
            ("{{ strftime_now('%d %b %Y') }}", "26 Jul 2024"),
            ("{{ tools is none }} {{ nothing is defined }} {{ messages[1:] | length }}", "True False 1"),
            (
                "{% if add_generation_prompt %}{{ messages[0]['content'].split('i')[0] + '…' }}{% endif %}",
                " H…",
            ),
            ("{{ messages | map(attribute='role') | join(',') }}", "user,assistant"),
            ("{{ messages[0].get('x', 'none') }} {{ 'content' in messages[0] }}", "none True"),
            ("{{ eos_token }}{{ '%s-%s' | format(1, 'a') }}", "1-a"),
            (
                "{% for m in messages %}{{ loop.previtem.role if loop.previtem is defined else '-' }}{% endfor %}",
                "-user",
            ),
        ] {
            assert_eq!(fill(template, PAIR).as_deref(), Ok(text), "{template}");
        }
    }

    #[test]
    fn what_goes_wrong_is_said_with_the_line() {
        for (template, problem) in [
            ("\n{% if %}", "line 2 of the template: syntax error: "),
            ("{{ messages.x.y }}", "line 1 of the template: undefined value"),
            (
                "{{ raise_exception('roles must alternate') }}",
                "the template refuses it: roles must alternate",
            ),
            (
                "\n\n{{ strftime_now('%Q') }}",
                "line 3 of the template: invalid operation: `strftime_now` does not know `%Q`",
            ),
            ("{{ 'a'.casefold() }}", "line 1 of the template: unknown method: "),
        ] {
            let found = fill(template, PAIR).unwrap_err();
            assert!(found.starts_with(problem), "{template}: {found}");
        }
        let undated = Template::new("{{ strftime_now('%Y') }}", Vec::new(), None).unwrap();
        let error = undated.fill(&Conversation::default(), 0, false).unwrap_err();
        assert!(error.ends_with("fix one, as `date = \"2024-07-26\"`"), "{error}");
    }

    #[test]
    fn a_block_keeps_its_lines_as_a_tag_does() {
        let template = "A\n  {% generation %}\nB\n  {%- endgeneration %}\nC";
        let template = Template::new(template, Vec::new(), None).unwrap();
        let written = template.fill(&Conversation::default(), 0, false).unwrap();
        assert!(template.has_blocks);
        assert_eq!((written.text.as_str(), &written.turns[..]), ("A\nBC", std::slice::from_ref(&(2..3))));
    }
}
