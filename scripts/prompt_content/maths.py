# ruff: noqa: E501, SIM905
"""Story frames for grade-school maths problems. Fields in braces are filled by `scripts/make_prompts.py`.

`{p}` `{q}` are different first names, `{thing}` `{place}` `{job}` are drawn from the lists below, `{a:LOW-HIGH}` is a whole number
from that range, `{a:LOW-HIGH/STEP}` a multiple of STEP; a field named again repeats its number. Knows no answers.
"""

NAMES = """Amara Bruno Chen Dalia Emeka Farid Greta Hana Ivo Jonas Kavya Lena Mateo Nadia Oskar Priya Quentin Rosa Samir Tara Ugo Vera
Wanda Ximena Yusuf Zoe Abel Bianca Carlos Dina Elif Felix Gina Hugo Ines Jamal Kira Liam Mona Nils Olga Pedro Rhea Stefan Tomas Una
Viktor Willa Yara Zane Aiko Boris Celia Dmitri Esther Freya Gustav Hilda Imran Judit""".split()

THINGS = [t.strip() for t in (
    "marbles|stickers|apples|pencils|postcards|seashells|cookies|toy cars|notebooks|bracelets|badges|crayons|muffins|balloons|"
    "comic books|candles|oranges|buttons|trading cards|cupcakes|lemons|stamps|puzzles|tulips|paper cranes|glass beads|pancakes"
).split("|")]

FRAMES = """
{p} has {a:12-60} {thing} and gives {b:3-11} of them to each of {c:2-4} friends. How many {thing} are left?
A box holds {a:6-24} {thing}. {p} buys {b:3-15} boxes and then loses {c:2-9} {thing}. How many {thing} does {p} have now?
{p} reads {a:12-40} pages on Monday and twice that number on Tuesday. The book has {b:150-400/10} pages. How many pages remain?
{p} earns ${a:9-24} an hour and works {b:4-9} hours a day, {c:3-6} days a week. How much does {p} earn in {d:2-5} weeks?
A train leaves with {a:80-240/5} passengers. At the first stop {b:10-40} people get off and {c:5-35} get on; at the second stop half of the passengers get off. How many passengers are on the train then?
{p} bakes {a:3-9} trays with {b:8-16} muffins each. {q} eats {c:2-7} of them, and the rest is sold for ${d:2-4} apiece. How much money comes in?
The school buys {a:12-45} chairs at ${b:18-60} each and {c:4-12} tables at ${d:75-180/5} each. What is the total bill?
{p} is {a:7-14} years old. {q} is three times as old. How old will {q} be when {p} is {b:16-25}?
A tank holds {a:200-900/50} litres. It is filled at {b:8-20} litres a minute while {c:2-6} litres a minute leak out. How long until the tank is full?
{p} saves ${a:5-25} every week for {b:6-20} weeks and then spends ${c:30-90/5} on a present. How much of the savings is left?
A rectangular garden is {a:8-30} metres long and {b:4-18} metres wide. A fence costs ${c:6-15} a metre. What does a fence around the garden cost?
{p} drives {a:45-75/5} miles an hour for {b:2-5} hours and then {c:30-60/5} miles an hour for {d:1-4} hours. How far does {p} drive altogether?
In a class of {a:20-36/4} pupils a quarter play an instrument, and {b:3-8} of those play the violin. How many musicians do not play the violin?
A shirt costs ${a:20-80/5}. The shop takes {b:10-40/10}% off, and {p} has a voucher for another ${c:2-9}. What does {p} pay?
{p} has {a:3-8} bags with {b:11-25} {thing} each, and {q} has {c:2-6} bags with {d:15-30} each. Who has more, and by how many?
A recipe for {a:4-6} people needs {b:2-6} cups of flour. {p} cooks for {c:12-36/4} people. How many cups of flour are needed?
A cyclist covers {a:12-30} kilometres in the first hour and {b:2-5} kilometres less in each of the next two hours. How far does the cyclist get in three hours?
{p} buys {a:3-9} notebooks for ${b:2-5} each and {c:4-12} pens for ${d:1-3} each and pays with a $100 bill. How much change does {p} get?
A farmer has {a:24-90} hens. Each hen lays {b:4-6} eggs a week. Eggs are sold by the dozen for ${c:3-5}. How much does the farmer earn in {d:2-6} weeks if only full dozens are sold?
A cinema has {a:10-24} rows of {b:12-26} seats. On Friday {c:60-200/10} seats stay empty. How many people watch the film?
{p} runs {a:2-6} kilometres on each weekday and {b:7-15} kilometres on Saturday, and rests on Sunday. How many kilometres is that in {c:3-8} weeks?
A water bottle holds {a:500-900/50} millilitres. {p} drinks {b:2-4} bottles a day. How many litres does {p} drink in a week?
{p} and {q} share {a:30-120/6} {thing} so that {q} gets twice as many as {p}. How many does each get?
A bookshop had {a:120-400/10} novels. It sold {b:20-60} on Saturday and half as many on Sunday, and then received {c:15-50/5} new ones. How many novels does it have now?
An elevator carries at most {a:600-1200/100} kilograms. Each crate weighs {b:35-65/5} kilograms, and the worker weighs {c:70-95}. How many crates can ride along?
{p}'s phone plan costs ${a:15-35} a month plus {b:5-15} cents for each message. Last month {p} sent {c:40-200/10} messages. What was the bill?
The sum of two numbers is {a:40-120/2} and their difference is {b:4-20/2}. What are the numbers?
A bus makes {a:5-12} trips a day with {b:24-52} seats, and on average {c:50-90/10}% of the seats are taken. How many passengers ride it in a day?
{p} plants {a:4-12} rows of {b:9-20} tulips. After a storm one third of a row is lost in each of {c:2-4} rows. How many flowers were lost at most, if half flowers are rounded down?
A pizza is cut into {a:8-12/2} slices. {p}, {q} and two friends order {b:3-6} pizzas and each eats {c:4-7} slices. How many slices remain?
{p} walks up {a:12-20} steps on each of {b:4-10} floors, {c:2-5} times a day. How many steps is that in five days?
A printer prints {a:12-40} pages a minute. {p} has to print {b:5-20} copies of a report of {c:24-60} pages. How many minutes does it take?
A jar contains {a:10-40} red, {b:10-40} blue and {c:10-40} green marbles. {p} takes out half of the red ones, rounded down. How many marbles are still in the jar?
A ship travels {a:240-720/20} kilometres with {b:60-180/20} litres of fuel. How many litres does it need for {c:900-1800/100} kilometres?
{p} sleeps {a:7-9} hours a night, works {b:6-9} hours and travels {c:1-2} hours a day. How many hours of a week are left for other things?
A rope of {a:24-96/4} metres is cut into pieces of equal length with {b:3-7} cuts. How long is one piece?
A concert sells {a:200-600/20} tickets at ${b:12-30} and {c:50-150/10} tickets at half that price. How much is taken in?
If {a:3-6} painters need {b:8-20} days for a house, how many days do {c:2-9} painters need who work at the same speed?
The temperature at dawn was {a:2-12} degrees below zero. It rose by {b:8-20} degrees until noon and fell by {c:3-9} degrees until the evening. What was it in the evening?
{p} invests ${a:500-3000/100} at {b:2-8}% simple interest a year. How much interest is paid after {c:2-6} years?
A baker uses {a:350-600/50} grams of flour for a loaf. How many whole loaves can be made of {b:8-25} kilograms, and how much flour is left over?
{p} scored {a:70-85}, {b:60-95} and {c:75-99} in three tests. What score is needed in the fourth test for an average of {d:80-88}?
A parking garage charges ${a:3-6} for the first hour and ${b:2-4} for every further hour. {p} parks from {c:8-10} in the morning until {d:2-6} in the afternoon. How much does it cost?
There are {a:3-9} times as many sheep as dogs on a farm, and {b:10-30} more chickens than sheep. If there are {c:4-9} dogs, how many animals is that in all?
{p} cuts the lawn in {a:30-60/10} minutes and {q} in {b:40-90/10} minutes. {p} cuts {c:3-6} lawns and {q} cuts {d:2-5}. How many minutes do they work together?
A pack of {a:4-8} batteries costs ${b:5-12}. A toy needs {c:2-4} batteries, and the day-care centre has {d:9-24} toys. How much must it spend on packs?
A snail climbs {a:3-6} metres by day and slides back {b:1-2} metres at night. The wall is {c:12-30} metres high. On which day does it reach the top?
The perimeter of a square field is {a:80-400/40} metres. A farmer needs {b:2-5} grams of seed for a square metre. How many kilograms of seed are needed?
{p} buys a used car for ${a:4000-9000/500}, spends ${b:300-900/50} on repairs and sells it with a profit of {c:10-30/10}% on the whole cost. What is the selling price?
A baby elephant weighs {a:90-120/5} kilograms at birth and gains {b:10-20} kilograms each month. How heavy is it after a year and a half?
{p} has ${a:40-90} in coins and notes. ${b:10-30} of it is in coins of 50 cents. How many such coins are there, and how much money is in notes?
A relay team of four swims {a:50-100/50} metres each. Their times are {b:31-39}, {c:31-39}, {d:31-39} and {e:31-39} seconds. What is the total time, and the mean time of a swimmer?
In a survey {a:30-60/10}% of {b:200-900/50} people prefer tea, a quarter prefer coffee and the others prefer water. How many prefer water?
""".strip().splitlines()

ASKS = [
    "{s}", "{s}", "{s}", "{s}", "{s} Show your work.", "Solve this step by step: {s}", "{s} Explain how you get the answer.",
    "Word problem: {s}", "Help me with my homework. {s}", "{s} Give the final number on its own line.",
]

EXERCISES = """
Solve for x: {a:2-9}x + {b:3-20} = {c:30-90}.
Simplify the expression {a:2-9}(x + {b:2-9}) - {c:2-9}x.
Compute {a:12-99} times {b:12-99} and show each step.
What is {a:5-60/5}% of {b:120-900/20}?
Convert {a:3-9} hours and {b:5-55/5} minutes to seconds.
Find the area and the perimeter of a rectangle with sides {a:4-25} cm and {b:4-25} cm.
Write {a:3-9}/{b:12-20/2} as a decimal number rounded to three places.
List the first {a:5-9} multiples of {b:6-19}.
What is the mean of {a:4-30}, {b:4-30}, {c:4-30} and {d:4-30}?
A triangle has angles of {a:30-80/5} and {b:40-70/5} degrees. How large is the third angle?
Round {a:1000-9999} to the nearest hundred and explain the rule.
Divide {a:200-900} by {b:6-19} and give quotient and remainder.
What comes next: {a:2-9}, {b:11-19}, {c:21-29}, {d:31-39}? Explain why there may be more than one answer.
The circumference of a circle with a radius of {a:3-20} cm: how do you compute it?
Two dice are thrown. What is the probability that the sum is {a:3-11}?
""".strip().splitlines()
