//! `{% generation %}` blocks, by which a template says what the model is to learn to say.
//!
//! ```text
//! {%- generation -%}     ->   {%- if true %}⟦{% endif -%}
//! {% endgeneration %}    ->   {% if true %}⟧{% endif %}
//! ```
//!
//! A mark between two tags keeps the white space around as the template's writer meant it: what a tag does to the line
//! before it, the first one does, and what it does to the line after it, the last one.

use super::marks::{TURN, TURN_END};

/// The template in Jinja's own words, and whether it has such blocks.
pub(super) fn rewrite(template: &str) -> (String, bool) {
    let mut out = String::with_capacity(template.len());
    let mut has_blocks = false;
    let mut rest = template;
    while let Some(open) = rest.find("{{").into_iter().chain(rest.find("{%")).chain(rest.find("{#")).min() {
        out.push_str(&rest[..open]);
        rest = &rest[open..];
        let length = match rest.as_bytes()[1] {
            b'#' => rest.find("#}").map(|at| at + 2),
            b'{' => end_of(rest, "}}"),
            _ => end_of(rest, "%}"),
        };
        let Some(length) = length else { break };
        let (tag, after) = rest.split_at(length);
        let name = tag.strip_prefix("{%").map_or("", name_of);
        let mark = match name {
            "generation" => Some(TURN),
            "endgeneration" => Some(TURN_END),
            _ => None,
        };
        match mark {
            Some(mark) => {
                has_blocks = true;
                let left = tag[2..].chars().next().filter(|c| matches!(c, '-' | '+'));
                let right = tag[..tag.len() - 2].chars().next_back().filter(|c| matches!(c, '-' | '+'));
                let sign = |sign: Option<char>| sign.map_or(String::new(), String::from);
                // Line numbers in messages stay those of the template.
                let lines = "\n".repeat(tag.matches('\n').count());
                let (left, right) = (sign(left), sign(right));
                out.push_str(&format!("{{%{left} if true{lines} %}}{mark}{{% endif {right}%}}"));
            }
            None => out.push_str(tag),
        }
        rest = after;
        if name == "raw" {
            // Until `endraw` nothing is a tag.
            let mut at = 0;
            let end = loop {
                let Some(found) = rest[at..].find("{%") else { break rest.len() };
                at += found;
                if name_of(&rest[at + 2..]) == "endraw" {
                    break at;
                }
                at += 2;
            };
            out.push_str(&rest[..end]);
            rest = &rest[end..];
        }
    }
    out.push_str(rest);
    (out, has_blocks)
}

/// The word that a tag begins with.
fn name_of(tag: &str) -> &str {
    let tag = tag.trim_start_matches(['-', '+']).trim_start();
    let end = tag.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(tag.len());
    &tag[..end]
}

/// Length of a tag or expression, up to `close` outside of strings.
fn end_of(text: &str, close: &str) -> Option<usize> {
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(2) {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if matches!(c, '\'' | '"') => quote = Some(c),
            None if text[at..].starts_with(close) => return Some(at + close.len()),
            None => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(template: &str) -> String {
        let (text, has_blocks) = rewrite(template);
        assert_eq!(has_blocks, text != template);
        text.replace(TURN, "⟦").replace(TURN_END, "⟧")
    }

    #[test]
    fn blocks_become_marks_with_the_white_space_control_of_their_tags() {
        assert_eq!(
            rewritten("a {%- generation -%} {{ x }} {% endgeneration +%}\nb"),
            "a {%- if true %}⟦{% endif -%} {{ x }} {% if true %}⟧{% endif +%}\nb"
        );
        assert_eq!(rewritten("{%generation%}"), "{% if true %}⟦{% endif %}");
    }

    #[test]
    fn what_is_no_tag_is_left_alone() {
        for template in [
            "{# {% generation %} #}x",
            "{{ '{% generation %}' }}",
            "{{ \"a\\\"{% generation %}\" }}",
            "{% raw %}{% generation %}{% endraw %}",
            "{% set generation = 1 %}{{ generation }}",
            "{% if x %}é{% endif %}",
            "{{ unclosed {% generation %}",
            "generation",
            "",
        ] {
            assert_eq!(rewritten(template), template);
        }
        assert_eq!(
            rewritten("{% raw %}{% generation %}{%- endraw %}{% generation %}"),
            "{% raw %}{% generation %}{%- endraw %}{% if true %}⟦{% endif %}"
        );
    }
}
