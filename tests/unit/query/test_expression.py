"""The expression language: what it means, and where its mistakes are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocketfsck.query.content.expression import MAX_LENGTH, ExpressionError, parse

MISTAKES = (
    ("", 0, "a field is missing before the end"),
    ("topic ==", 8, "and not the end"),
    ("topic == 1", 9, "topic is text and not '1'"),
    ('queue_id == "1"', 12, "queue_id is a number and not"),
    ("queue_id ~ /1/", 9, "~ does not apply"),
    ("body < x'00'", 5, "body is bytes: < does not apply"),
    ("tpoic == 'a'", 0, "did you mean topic?"),
    ("zzz == 'a'", 0, "the fields are topic, "),
    ("and topic", 0, "a field is missing before 'and'"),
    ("(topic", 6, "')' is missing before the end"),
    ("topic topic", 6, "'topic' is not expected here"),
    ('topic == "a', 9, "the text that begins here has no end"),
    ("body == x'0", 8, "the text that begins here has no end"),
    ("body ~ /a", 7, "the text that begins here has no end"),
    ("topic @ 'a'", 6, "'@' has no meaning here"),
    ("body == x'0g'", 8, "not pairs of hex digits"),
    ("topic ~ /a(b/", 10, "the pattern is wrong"),
    ("topic ~ /a/iz", 8, "no flag has the name 'z'"),
    ("topic ~ 3", 8, "a pattern is missing before '3'"),
    ("topic ~", 7, "a pattern is missing before the end"),
    ("store_timestamp > 'soon'", 18, "not a date"),
    ("properties.", 11, "a property's name is missing"),
    ("properties[a]", 11, "a property's name in quotes is missing"),
    ("properties['a'", 14, "']' is missing before the end"),
    ("properties == 'a'", 11, "'[' is missing before '=='"),
    ("queue_id in 1", 12, "'(' is missing before '1'"),
    ("queue_id in (1", 14, "')' is missing before the end"),
    ("queue_id == 9223372036854775808", 12, "does not fit 64 bits"),
    ("not " * 102 + "topic", 404, "nested deeper than 100"),
    ("(" * 102 + "topic", 101, "nested deeper than 100"),
    ("x" * (MAX_LENGTH + 1), MAX_LENGTH, "longer than"),
)


@pytest.mark.parametrize(("text", "pos", "words"), MISTAKES, ids=[text[:20] for text, _, _ in MISTAKES])
def test_mistakes_have_their_place(text: str, pos: int, words: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert words in str(caught.value)
    assert (caught.value.pos, caught.value.exit_code) == (pos, 16)
    assert f"character {pos + 1}:" in str(caught.value)


SAME = (
    ("topic = 'a'", 'topic == "a"'),
    ("not topic and tags or keys", "((not topic) and tags) or keys"),
    ("queue_id in (1)", "queue_id in ( 1 )"),
    ("sys_flag == 0x10", "sys_flag == 16"),
    ("store_timestamp == '2023-11-14T22:13:20'", "store_timestamp == 1700000000000"),
    ("store_timestamp == '2023-11-14T23:13:20+01:00'", "store_timestamp == 1700000000000"),
    ("topic == 'a\\n\\x41\\u0042\\''", 'topic == "a\nAB\'"'),
    ("body == 'A'", "body == x'41'"),
    ("properties.A == 'x'", "properties.A=='x'"),
)


@pytest.mark.parametrize(("one", "other"), SAME)
def test_different_texts_of_one_meaning(one: str, other: str) -> None:
    assert parse(one) == parse(other)


@given(
    st.text(alphabet=st.sampled_from("topic queue_id body and or not in(),.~=!<>\"'/x0\\[]1a\n"), max_size=60)
)
def test_any_text_is_an_expression_or_a_mistake_inside_it(text: str) -> None:
    try:
        parse(text)
    except ExpressionError as error:
        assert 0 <= error.pos <= len(text) + 1


def test_a_property_by_an_odd_name() -> None:
    node: Any = parse('properties["a b"] contains "x"')
    assert node.field.property_name == "a b"
