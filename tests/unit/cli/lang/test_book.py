"""Phrases of a book: places, nouns, parts of a text, and names, which stay."""

from __future__ import annotations

import pytest

from rocketfsck.cli.lang.book import SAME, Book, book_of, read_book, rows_of

BOOK = book_of(
    [
        ("nothing is wrong", "没有问题"),
        ("Start it.", "请启动它。"),
        ("it has ended", "它已结束"),
        ("{file} has {n:unit} that {n?leads|lead} beyond the log", "{file} 有 {n} 个越界条目"),
        ("hidden are {first..last:queue offset}", "隐藏了队列偏移量 {first..last}"),
        ("{1} begins again at {2}", "{1} 从 {2} 再次开始"),
        ("the broker says {1}", SAME),
        ("there are {n:,} of them", "共有 {n} 个"),
    ],
    [("unit", "个条目"), ("index entry", "个索引条目")],
    [("later", "更晚")],
    [("{1} begins at {2}, the end", "{1} 始于末尾 {2}")],
)  # fmt: skip


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("nothing is wrong", "没有问题"),
        ("nothing is wrong.", "没有问题。"),
        ("  nothing is wrong ", "  没有问题 "),
        ("Start it", "请启动它"),
        ("1 unit", "1 个条目"),
        ("12,345 index entries", "12,345 个索引条目"),
        ("a/b has 1 unit that leads beyond the log", "a/b 有 1 个越界条目"),
        ("a/b has 2 units that lead beyond the log", "a/b 有 2 个越界条目"),
        ("hidden are queue offsets 3 to 9", "隐藏了队列偏移量 3 到 9"),
        ("hidden are queue offset 3", "隐藏了队列偏移量 3"),
        ("5.2.0 to 5.3.4", "5.2.0 到 5.3.4"),
        ("it begins again at 7", "it 从 7 再次开始"),
        ("it begins at 7, the end", "it 始于末尾 7"),
        ("there are 3 of them", "共有 3 个"),
        ("there are some of them", "there are some of them"),
        ("the broker says nothing is wrong", "the broker says nothing is wrong"),
    ],
)
def test_a_phrase(english: str, chinese: str) -> None:
    assert BOOK.say(english) == chinese


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("nothing is wrong; it has ended", "没有问题；它已结束"),
        ("nothing is wrong. it has ended.", "没有问题。它已结束。"),
        ("TopicA: nothing is wrong", "TopicA：没有问题"),
        ("nothing is wrong (it has ended)", "没有问题（它已结束）"),
        ("it has ended (TopicA)", "它已结束 (TopicA)"),
        ("nothing is wrong: no such phrase", "没有问题：no such phrase"),
        ("- nothing is wrong", "- 没有问题"),
        ("CL004 nothing is wrong", "CL004 没有问题"),
        ("CL004 no such phrase", "CL004 no such phrase"),
        ("no such phrase, none at all", "no such phrase, none at all"),
        ("2 units begins again at later", "2 个条目 从 更晚 再次开始"),
    ],
)
def test_a_text_of_several_parts(english: str, chinese: str) -> None:
    assert BOOK.say(english) == chinese


def test_a_name_is_never_translated() -> None:
    """A topic may be called as a word of the book is."""
    book = book_of([("unit", "条目"), ("topic {1} is lost", "主题 {1} 丢失")], [("unit", "个条目")])
    assert book.say("topic unit is lost") == "主题 unit 丢失"
    assert book.say_within("unit") == "unit"
    assert book.say("unit") == "条目"


def test_what_has_no_letters_is_no_text() -> None:
    assert BOOK.say("1,234 / 5") == "1,234 / 5"
    assert BOOK.say("") == ""


def test_a_short_phrase_is_found_within_an_item_only() -> None:
    book = book_of([("byte {1}", "第 {1} 字节"), ("a long phrase of {1}", "长短语 {1}")])
    assert book.say("byte 8172") == "第 8172 字节"
    assert book.say("byte 8172, entry 3") == "第 8172 字节，entry 3"
    assert book.say("a long phrase of a, b") == "长短语 a, b"


def test_too_few_letters_are_no_phrase() -> None:
    """`{1} of {2}` would be found nearly everywhere."""
    assert book_of([("{1} of {2}", "{2} 的 {1}"), ("{1} and {2}", "{1} 和 {2}")]).phrases == {}


def test_many_texts_do_not_fill_the_memory() -> None:
    book: Book = book_of([("{1} begins again at {2}", "{1} 从 {2} 再次开始")])
    for number in range(5000):
        assert book.say(f"it begins again at {number}") == f"it 从 {number} 再次开始"
    assert len(book._known) <= 4096


def test_rows_of_a_file() -> None:
    assert list(rows_of("a\tb\n\nc d\te\n")) == [("a", "b"), ("c d", "e")]


def test_the_book_of_the_package() -> None:
    book = read_book("zh")
    assert book.say("A broker does not start on this store.") == "Broker 无法在该存储目录上启动。"
    assert book is read_book("zh")


@pytest.mark.parametrize("mark", [", ", " and ", ": ", "; ", ". ", "/", ".", " ", " (", ")"])
def test_a_hostile_text_takes_no_longer_than_another(mark: str) -> None:
    """Data may look like the beginning of any phrase, many times over: patterns are not tried in all ways."""
    book = read_book("zh")
    words = ("queue", "of", "the record at", "bytes", "has", "index", "segment", "in", "not")
    for size in (40, 4000):
        for word in words:
            text = mark.join([word, "x"] * size)
            assert book.say(text[: size * 8])
            assert book.say(f"{text}!")
