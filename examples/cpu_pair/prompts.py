"""Prompts to distil a draft on: templates filled with every combination of their parts, by task.

They are written for training alone. What a trial measures with must stay unseen, or the draft's
acceptance would be that of text it has learnt by heart.
"""

from __future__ import annotations

import itertools
import random

# Each task: the templates, and the values of the two slots that they may use.
_TASKS: dict[str, tuple[list[str], list[str], list[str]]] = {
    "code": (
        [
            "Write a {b} function that {a}.",
            "Show me in {b} how to write a function that {a}, with a short example of its use.",
            "In {b}, write code that {a}. Add comments.",
        ],
        [
            "reverses the words of a sentence",
            "checks whether a string is a palindrome",
            "counts the vowels in a text",
            "merges two sorted lists",
            "finds the second largest number in a list",
            "computes the greatest common divisor of two numbers",
            "converts a temperature from Celsius to Fahrenheit",
            "removes the duplicates from a list and keeps the order",
            "reads a file and counts its lines",
            "returns all prime numbers below n",
            "does a binary search in a sorted list",
            "counts how often each word occurs",
            "transposes a matrix",
            "validates an e-mail address",
            "flattens a nested list",
            "computes the average and the median of numbers",
            "sorts a list of records by a field",
            "implements a stack with push and pop",
            "parses a date written as YYYY-MM-DD",
            "generates a random password",
        ],
        ["Python", "JavaScript", "Java", "C"],
    ),
    "json_sql": (
        [
            "Return a JSON object that describes a {a} with the fields {b}.",
            "Write a SQL query on the table {a}s that lists the {b} of all rows, newest first.",
            "Write the SQL statement that creates a table for a {a} with columns for {b}.",
            "Give me a JSON array with three examples of a {a}, each with {b}.",
        ],
        [
            "customer",
            "book",
            "flight",
            "recipe",
            "sensor",
            "invoice",
            "hotel",
            "movie",
            "employee",
            "parcel",
            "course",
            "vehicle",
        ],
        [
            "id, name and price",
            "id, title and created_at",
            "name, status and city",
            "code, amount and currency",
        ],
    ),
    "chat": (
        [
            "{a} {b}",
            "A friend asked me: {a} What should I answer? {b}",
        ],
        [
            "What is the difference between weather and climate?",
            "How do I start running as a beginner?",
            "Why is the sky blue?",
            "How does a refrigerator work?",
            "What should I cook with rice and eggs?",
            "How can I sleep better?",
            "What does inflation mean?",
            "How do plants make their food?",
            "How do I prepare for a job interview?",
            "What is the capital of Australia, and what is it known for?",
            "How do vaccines work?",
            "How can I save money every month?",
            "What is a black hole?",
            "How do I learn a new language quickly?",
            "Why do cats purr?",
            "How do I change a bicycle tyre?",
            "What are the benefits of reading?",
            "How does the internet work?",
            "What is machine learning?",
            "How do I write a polite complaint?",
        ],
        [
            "Explain it simply.",
            "Answer in a numbered list.",
            "Give three short points.",
            "Please answer in two paragraphs.",
        ],
    ),
    "summarization": (
        [
            "Summarise this text in {b}: {a}",
            "Read the following and give me {b} of it.\n\n{a}",
        ],
        [
            "The town council met on Monday to discuss the new bridge. Several residents said that "
            "the old one was unsafe. The engineer explained that repairs would cost almost as much "
            "as a new bridge. A vote is planned for next month.",
            "Honey bees live in colonies of up to sixty thousand. The queen lays eggs, the workers "
            "gather nectar and keep the hive clean, and the drones mate with queens of other "
            "hives. In winter the colony forms a cluster to stay warm.",
            "The company reported sales of 40 million in the second quarter, up from 35 million a "
            "year ago. Costs rose faster than sales because of transport. Management expects a "
            "better second half and plans to open two new stores.",
            "Researchers studied how sleep affects memory. Students who slept eight hours after a "
            "lesson remembered a third more than those who stayed awake. The effect was strongest "
            "for facts and weakest for motor skills.",
            "The library will close for renovation in June. Books can be returned to the branch in "
            "the north. The reading room moves to the school, and the new building will have more "
            "light, a cafe and rooms for groups.",
            "Volcanoes form where molten rock reaches the surface. Some erupt gently and build "
            "broad shields; others explode and leave craters. Their ash makes soil fertile, which "
            "is why many people live near them.",
            "After the storm, the power was out in three districts. Crews from neighbouring states "
            "helped to repair the lines. By Thursday evening most homes had electricity again, and "
            "schools reopened on Friday.",
            "The museum shows two hundred paintings of the nineteenth century. Many come from "
            "private collections and were never shown before. Guided tours are offered every "
            "afternoon, and children enter free of charge.",
        ],
        ["one sentence", "two sentences", "three bullet points", "a short headline and a summary"],
    ),
    "creative": (
        [
            "Write a {b} about {a}.",
            "Begin a {b} in which {a} plays the main part.",
        ],
        [
            "a lighthouse keeper",
            "an old robot",
            "the first snow",
            "a lost letter",
            "a cat who can talk",
            "a train at night",
            "a garden on the moon",
            "two brothers at sea",
            "a forgotten song",
            "a clockmaker",
            "a dragon afraid of fire",
            "the last library",
            "a market in the desert",
            "a girl who collects shadows",
        ],
        ["short story", "poem", "fairy tale", "letter", "dialogue"],
    ),
}


def by_task() -> dict[str, list[str]]:
    """Every prompt, in a fixed order, under its task family."""
    return {
        task: [template.format(a=a, b=b) for template, a, b in itertools.product(templates, first, second)]
        for task, (templates, first, second) in _TASKS.items()
    }


def shuffled(seed: int) -> list[str]:
    """All prompts in an order in which any beginning holds a mix of the tasks."""
    prompts = [prompt for family in by_task().values() for prompt in family]
    random.Random(seed).shuffle(prompts)
    return prompts
