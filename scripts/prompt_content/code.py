# ruff: noqa: E501
"""Function specifications for code prompts: `signature | description | arguments => result ; ...`, one a line.

Knows nothing about how a prompt is worded; `scripts/make_prompts.py` does that.
"""

FUNCTIONS = """
count_words(text: str) -> int | Return the number of words in text. Words are separated by one or more blanks. | "a quick test" => 3 ; "" => 0
longest_run(values: list[int]) -> int | Return the length of the longest stretch of equal neighbours in values. | [1, 1, 2, 2, 2, 3] => 3 ; [] => 0
second_largest(numbers: list[int]) -> int | Return the second largest distinct value, or None when there is no such value. | [4, 9, 9, 2] => 4 ; [5] => None
celsius_to_fahrenheit(c: float) -> float | Convert a temperature from Celsius to Fahrenheit. | 100.0 => 212.0 ; 0.0 => 32.0
is_leap_year(year: int) -> bool | Tell whether a year of the Gregorian calendar has 366 days. | 2000 => True ; 1900 => False ; 2024 => True
chunk(items: list, size: int) -> list[list] | Cut items into consecutive pieces of at most size elements. | [1, 2, 3, 4, 5], 2 => [[1, 2], [3, 4], [5]]
flatten(nested: list) -> list | Flatten a list that may contain lists to any depth. | [1, [2, [3, 4]], 5] => [1, 2, 3, 4, 5]
word_lengths(sentence: str) -> dict[str, int] | Map each word of the sentence to its length. | "to be or" => {'to': 2, 'be': 2, 'or': 2}
rotate_left(values: list, k: int) -> list | Rotate the list k places to the left. | [1, 2, 3, 4], 1 => [2, 3, 4, 1]
transpose(matrix: list[list[int]]) -> list[list[int]] | Swap the rows and the columns of a rectangular matrix. | [[1, 2, 3], [4, 5, 6]] => [[1, 4], [2, 5], [3, 6]]
collatz_steps(n: int) -> int | Count how many steps of the Collatz rule lead from n to 1. | 6 => 8 ; 1 => 0
merge_sorted(a: list[int], b: list[int]) -> list[int] | Merge two ascending lists into one ascending list without calling sort. | [1, 4], [2, 3, 9] => [1, 2, 3, 4, 9]
dot(u: list[float], v: list[float]) -> float | Compute the inner product of two vectors of equal length. | [1, 2, 3], [4, 5, 6] => 32
running_total(values: list[int]) -> list[int] | Return a list whose i-th entry is the sum of values up to and including position i. | [3, 1, 2] => [3, 4, 6]
initials(full_name: str) -> str | Build the initials of a full name in capitals, each followed by a dot. | "ada king lovelace" => 'A.K.L.'
mode(values: list[int]) -> int | Return the most frequent value. On a tie choose the smallest. | [2, 3, 3, 2, 1] => 2
seconds_to_clock(seconds: int) -> str | Format a duration as hours, minutes and seconds with two digits each. | 3661 => '01:01:01' ; 59 => '00:00:59'
is_anagram_pair(first: str, second: str) -> bool | Check if both strings consist of the same letters, ignoring case and blanks. | "Listen", "Silent" => True ; "apple", "pale" => False
binary_search(items: list[int], wanted: int) -> int | Return the position of wanted in the ascending list items, or -1 when it is missing. | [1, 3, 5, 7], 5 => 2 ; [1, 3], 4 => -1
bubble_sort(values: list[int]) -> list[int] | Sort the values in ascending order with the bubble sort algorithm. | [3, 1, 2] => [1, 2, 3]
unique_in_order(items: list) -> list | Drop repeated elements and keep the first occurrence of each. | [3, 1, 3, 2, 1] => [3, 1, 2]
title_case(text: str) -> str | Make the first letter of every word a capital and all others small. | "hELLO wORLD" => 'Hello World'
digits_product(n: int) -> int | Multiply all decimal digits of a non-negative number. | 234 => 24 ; 105 => 0
least_common_multiple(a: int, b: int) -> int | Return the smallest positive integer divisible by both a and b. | 4, 6 => 12 ; 7, 3 => 21
parse_query(query: str) -> dict[str, str] | Parse the query part of a URL into a dictionary. | "a=1&b=two" => {'a': '1', 'b': 'two'}
mask_card(number: str) -> str | Replace all but the last four characters of a card number by stars. | "1234567890" => '******7890'
pascal_row(n: int) -> list[int] | Return row n of Pascal's triangle, counting from zero. | 0 => [1] ; 4 => [1, 4, 6, 4, 1]
moving_average(values: list[float], window: int) -> list[float] | Average every window of neighbouring values. | [2.0, 4.0, 6.0], 2 => [3.0, 5.0]
invert_mapping(mapping: dict) -> dict | Exchange the keys and the values of a dictionary whose values are unique. | {'a': 1, 'b': 2} => {1: 'a', 2: 'b'}
group_by_first_letter(words: list[str]) -> dict[str, list[str]] | Collect words under their first letter in order of appearance. | ['pear', 'plum', 'fig'] => {'p': ['pear', 'plum'], 'f': ['fig']}
roman_to_number(roman: str) -> int | Convert a Roman numeral to an integer. | "XIV" => 14 ; "MCMXC" => 1990
hamming_distance(left: str, right: str) -> int | Count the positions at which two strings of equal length differ. | "karolin", "kathrin" => 3
compound_interest(principal: float, rate: float, years: int) -> float | Return the balance after years of yearly compounding at the given rate. | 100.0, 0.1, 2 => 121.0
is_armstrong(n: int) -> bool | Check if n equals the sum of its digits raised to the number of digits. | 153 => True ; 154 => False
pairs_with_sum(numbers: list[int], total: int) -> list[tuple[int, int]] | List all pairs of values at different positions that add up to total, smaller value first. | [1, 5, 3, 3], 6 => [(1, 5), (3, 3)]
acronym(phrase: str) -> str | Join the first letters of all words in upper case. | "central processing unit" => 'CPU'
triangle_kind(a: int, b: int, c: int) -> str | Classify a triangle as 'equilateral', 'isosceles', 'scalene' or 'invalid'. | 3, 3, 3 => 'equilateral' ; 1, 2, 9 => 'invalid'
zigzag(first: list, second: list) -> list | Take elements from both lists in turn and append what is left of the longer one. | [1, 3], [2, 4, 5] => [1, 2, 3, 4, 5]
factorial_digits(n: int) -> int | Add the digits of n factorial. | 5 => 3 ; 10 => 27
perfect_square(n: int) -> bool | Tell whether n is the square of an integer, without floating point numbers. | 49 => True ; 50 => False
clamp(value: float, low: float, high: float) -> float | Return value limited to the closed range from low to high. | 12, 0, 10 => 10 ; -3, 0, 10 => 0
snake_to_camel(name: str) -> str | Turn a snake_case name into camelCase. | "user_first_name" => 'userFirstName'
camel_to_snake(name: str) -> str | Turn a camelCase name into snake_case. | "maxItemCount" => 'max_item_count'
value_counts(values: list[int]) -> dict[int, int] | Count the occurrences of each value. | [1, 2, 2, 5] => {1: 1, 2: 2, 5: 1}
diagonal_sum(matrix: list[list[int]]) -> int | Add up the main diagonal of a square matrix. | [[1, 2], [3, 4]] => 5
distance(p: tuple[float, float], q: tuple[float, float]) -> float | Compute the Euclidean distance of two points in the plane. | (0, 0), (3, 4) => 5.0
compress(text: str) -> str | Run-length encode the text as letter followed by count. | "aaabcc" => 'a3b1c2'
expand(code: str) -> str | Undo a run-length encoding of single letters and single-digit counts. | "a3b1" => 'aaab'
next_prime(n: int) -> int | Return the smallest prime strictly greater than n. | 7 => 11 ; 1 => 2
divisors(n: int) -> list[int] | List all positive divisors of n in ascending order. | 12 => [1, 2, 3, 4, 6, 12]
gcd_of_list(values: list[int]) -> int | Return the greatest common divisor of all values. | [12, 18, 30] => 6
power_mod(base: int, exponent: int, modulus: int) -> int | Compute a modular power by repeated squaring. | 3, 4, 5 => 1
median_of(values: list[float]) -> float | Return the middle of the ordered values, or the mean of the two middle ones. | [5, 1, 3] => 3 ; [1, 2, 3, 4] => 2.5
variance(values: list[float]) -> float | Compute the population variance. | [1.0, 3.0] => 1.0
top_k(scores: dict[str, int], k: int) -> list[str] | Return the k names with the highest scores, best first. | {'ann': 3, 'bob': 9, 'cy': 5}, 2 => ['bob', 'cy']
strip_comments(source: str) -> str | Remove everything after a hash sign on each line. | "x = 1 # one" => 'x = 1 '
parse_time(text: str) -> int | Convert a clock time such as '7:05' to minutes since midnight. | "7:05" => 425 ; "0:30" => 30
add_binary(a: str, b: str) -> str | Add two binary numbers given as strings. | "101", "11" => '1000'
multiply_matrices(a: list[list[int]], b: list[list[int]]) -> list[list[int]] | Multiply two matrices of fitting shapes. | [[1, 2]], [[3], [4]] => [[11]]
spiral(matrix: list[list[int]]) -> list[int] | Read the matrix clockwise from the outside to the inside. | [[1, 2], [4, 3]] => [1, 2, 3, 4]
island_count(grid: list[list[int]]) -> int | Count the groups of ones connected horizontally or vertically. | [[1, 0], [0, 1]] => 2
shortest_path(graph: dict[str, list[str]], start: str, goal: str) -> list[str] | Find a shortest path by breadth-first search, or return an empty list. | {'a': ['b'], 'b': ['c'], 'c': []}, 'a', 'c' => ['a', 'b', 'c']
topological_order(graph: dict[str, list[str]]) -> list[str] | Order the nodes so that every edge points forward. | {'shirt': ['tie'], 'tie': []} => ['shirt', 'tie']
knapsack(weights: list[int], values: list[int], capacity: int) -> int | Return the highest total value that fits in the capacity, each item used at most once. | [1, 3, 4], [15, 20, 30], 4 => 35
coin_ways(coins: list[int], amount: int) -> int | Count the ways to pay the amount with unlimited coins of each kind. | [1, 2, 5], 5 => 4
edit_distance(source: str, target: str) -> int | Return the Levenshtein distance of two strings. | "kitten", "sitting" => 3
longest_common_subsequence(a: str, b: str) -> str | Return one longest subsequence shared by both strings. | "abcde", "ace" => 'ace'
best_profit(prices: list[int]) -> int | Return the largest gain of buying once and selling later, or 0. | [7, 1, 5, 3, 6, 4] => 5 ; [3, 2, 1] => 0
trapped_water(heights: list[int]) -> int | Compute how many units of rain stay between the bars. | [2, 0, 2] => 2 ; [1, 2, 3] => 0
can_jump(steps: list[int]) -> bool | Tell whether the last position can be reached when steps[i] is the longest jump from i. | [2, 0, 1] => True ; [1, 0, 1] => False
product_except_self(values: list[int]) -> list[int] | For each position multiply all other values, without division. | [1, 2, 3, 4] => [24, 12, 8, 6]
missing_number(values: list[int]) -> int | The list holds every number from 0 to n except one. Return the one that is missing. | [0, 1, 3] => 2
majority(votes: list[str]) -> str | Return the option with more than half of the votes, or an empty string. | ['x', 'y', 'x'] => 'x' ; ['x', 'y'] => ''
reverse_words(sentence: str) -> str | Reverse the order of the words but not their letters. | "one two three" => 'three two one'
valid_ip(address: str) -> bool | Check that the address has four decimal parts from 0 to 255. | "192.168.0.1" => True ; "256.1.1.1" => False
parse_csv_line(line: str) -> list[str] | Split one CSV line at commas outside of double quotes. | 'a,"b,c",d' => ['a', 'b,c', 'd']
wrap_text(text: str, width: int) -> list[str] | Break text into lines of at most width characters without cutting words. | "one two three", 7 => ['one two', 'three']
justify_right(text: str, width: int) -> str | Pad the text with blanks on the left until it is width long. | "ok", 4 => '  ok'
common_prefix(words: list[str]) -> str | Return the longest prefix shared by all words. | ['flower', 'flow', 'flight'] => 'fl'
is_pangram(sentence: str) -> bool | Check if every letter of the English alphabet occurs at least once. | "Pack my box with five dozen liquor jugs" => True
first_unique_char(text: str) -> int | Return the index of the first character that occurs once, or -1. | "swiss" => 1 ; "aabb" => -1
multiply_table(n: int) -> list[list[int]] | Return the multiplication table from 1 to n as rows. | 2 => [[1, 2], [2, 4]]
sum_of_evens(limit: int) -> int | Add all even numbers from 0 up to and including limit. | 6 => 12 ; 1 => 0
alternating_sum(values: list[int]) -> int | Subtract the values at odd positions from those at even positions and add up. | [5, 2, 4] => 7
apply_discount(price: float, percent: float) -> float | Return the price after taking off the given percentage, rounded to cents. | 80.0, 25 => 60.0
bmi(weight_kg: float, height_m: float) -> float | Compute the body mass index with one decimal. | 70, 1.75 => 22.9
quadratic_roots(a: float, b: float, c: float) -> list[float] | Return the real roots of a quadratic equation in ascending order. | 1, -3, 2 => [1.0, 2.0] ; 1, 0, 1 => []
dice_histogram(rolls: list[int]) -> list[int] | Return how often each face from 1 to 6 was rolled. | [1, 6, 6] => [1, 0, 0, 0, 0, 2]
frequency_sort(text: str) -> str | Order the characters by falling frequency, equal ones alphabetically. | "tree" => 'eert'
deep_get(data: dict, path: str, default=None) | Look up a value in nested dictionaries by a dotted path. | {'a': {'b': 1}}, "a.b" => 1
merge_dicts(first: dict, second: dict) -> dict | Merge two dictionaries of numbers and add the values of shared keys. | {'x': 1}, {'x': 2, 'y': 5} => {'x': 3, 'y': 5}
filter_adults(people: list[dict]) -> list[str] | Return the names of all people who are at least eighteen years old. | [{'name': 'Li', 'age': 20}, {'name': 'Jo', 'age': 12}] => ['Li']
sort_by_length(words: list[str]) -> list[str] | Sort words by length, then alphabetically. | ['pear', 'fig', 'kiwi'] => ['fig', 'kiwi', 'pear']
remove_nth(items: list, n: int) -> list | Return a copy of items without every n-th element. | [1, 2, 3, 4, 5, 6], 3 => [1, 2, 4, 5]
cartesian(a: list, b: list) -> list[tuple] | List all ordered pairs of an element of a and an element of b. | [1, 2], ['x'] => [(1, 'x'), (2, 'x')]
subsets(items: list) -> list[list] | Return all subsets of items, the empty one first. | [1, 2] => [[], [1], [2], [1, 2]]
permutations_of(word: str) -> list[str] | List the distinct rearrangements of a word in alphabetical order. | "aab" => ['aab', 'aba', 'baa']
hanoi_moves(disks: int) -> int | Return the least number of moves for the Tower of Hanoi. | 3 => 7 ; 1 => 1
josephus(n: int, k: int) -> int | Every k-th of n people in a circle leaves. Return the position of the last one, counting from 1. | 5, 2 => 3
digital_root(n: int) -> int | Add the digits of n again and again until one digit is left. | 942 => 6 ; 7 => 7
to_base(n: int, base: int) -> str | Write n in a base between 2 and 16 with lower-case digits. | 255, 16 => 'ff' ; 5, 2 => '101'
hex_to_rgb(color: str) -> tuple[int, int, int] | Convert a colour such as '#ff8000' to three numbers. | "#ff8000" => (255, 128, 0)
rgb_to_hex(red: int, green: int, blue: int) -> str | Write a colour as a hash sign and six hexadecimal digits. | 255, 0, 16 => '#ff0010'
word_score(word: str) -> int | Score a word with a=1, b=2 and so on up to z=26. | "cab" => 6
tokenize_formula(formula: str) -> list[str] | Split an arithmetic formula into numbers, operators and brackets. | "3+(4*12)" => ['3', '+', '(', '4', '*', '12', ')']
eval_postfix(tokens: list[str]) -> int | Evaluate an arithmetic expression in postfix notation. | ['3', '4', '+', '2', '*'] => 14
luhn_valid(number: str) -> bool | Check a card number with the Luhn checksum. | "79927398713" => True ; "79927398710" => False
isbn_check_digit(digits: str) -> str | Compute the last character of a ten-digit ISBN from its first nine digits. | "030640615" => '2'
parity(bits: list[int]) -> int | Return 1 when the number of ones is odd and 0 otherwise. | [1, 0, 1, 1] => 1
count_set_bits(n: int) -> int | Count the ones in the binary form of n. | 13 => 3 ; 0 => 0
bank_balance(transactions: list[tuple[str, float]]) -> float | Add deposits and subtract withdrawals. | [('deposit', 50), ('withdraw', 20)] => 30
grade(score: int) -> str | Map a score from 0 to 100 to a letter: 90 and up is A, 80 B, 70 C, 60 D, below that F. | 85 => 'B' ; 12 => 'F'
overlap_length(a: tuple[int, int], b: tuple[int, int]) -> int | Return how long two closed intervals overlap. | (1, 5), (3, 9) => 2 ; (0, 1), (4, 5) => 0
merge_intervals(intervals: list[list[int]]) -> list[list[int]] | Join all intervals that touch or overlap. | [[1, 3], [2, 6], [8, 9]] => [[1, 6], [8, 9]]
meeting_rooms(meetings: list[tuple[int, int]]) -> int | Return how many rooms are needed so that no two meetings collide. | [(0, 30), (5, 10), (15, 20)] => 2
day_of_year(year: int, month: int, day: int) -> int | Count the days since the last of December of the year before. | 2023, 2, 1 => 32
weekday_name(index: int) -> str | Return the name of a weekday where 0 is Monday. | 0 => 'Monday' ; 6 => 'Sunday'
age_in_days(birth: str, today: str) -> int | Return the days between two dates written as YYYY-MM-DD. | "2024-02-28", "2024-03-01" => 2
valid_password(password: str) -> bool | Accept passwords of eight characters or more with a digit, a small letter and a capital. | "Secret12" => True ; "short1A" => False
extract_emails(text: str) -> list[str] | Find all e-mail addresses in a text. | "write to a@b.org or c@d.net" => ['a@b.org', 'c@d.net']
extract_hashtags(post: str) -> list[str] | Return the hashtags of a post without the hash sign. | "so #happy and #tired" => ['happy', 'tired']
slugify(title: str) -> str | Make a web address part: small letters, digits and single dashes. | "Hello, Big World!" => 'hello-big-world'
pig_latin(word: str) -> str | Move leading consonants to the end and add 'ay'; add 'way' when the word starts with a vowel. | "string" => 'ingstray' ; "apple" => 'appleway'
number_words(n: int) -> str | Spell a number from 0 to 20 in English. | 13 => 'thirteen'
ordinal(n: int) -> str | Write a positive number with its English ordinal ending. | 1 => '1st' ; 12 => '12th' ; 23 => '23rd'
morse_encode(text: str) -> str | Encode letters in Morse code separated by blanks. | "sos" => '... --- ...'
vowel_positions(word: str) -> list[int] | Return the indices of all vowels, counting from zero. | "banana" => [1, 3, 5]
sentence_count(text: str) -> int | Count the sentences that end in a full stop, an exclamation or a question mark. | "Hi! How are you? Fine." => 3
bigrams(words: list[str]) -> list[tuple[str, str]] | List all pairs of neighbouring words. | ['a', 'b', 'c'] => [('a', 'b'), ('b', 'c')]
jaccard(a: set, b: set) -> float | Divide the size of the intersection by the size of the union; two empty sets give 1.0. | {1, 2}, {2, 3} => 0.3333333333333333
cosine_similarity(u: list[float], v: list[float]) -> float | Return the cosine of the angle between two non-zero vectors. | [1, 0], [1, 0] => 1.0
normalize(values: list[float]) -> list[float] | Scale values so that the smallest becomes 0 and the largest 1. | [2, 4, 6] => [0.0, 0.5, 1.0]
softmax(values: list[float]) -> list[float] | Turn numbers into probabilities in a numerically stable way. | [0.0, 0.0] => [0.5, 0.5]
argmax(values: list[float]) -> int | Return the index of the first largest value. | [1, 7, 7] => 1
linear_fit(xs: list[float], ys: list[float]) -> tuple[float, float] | Fit a straight line by least squares and return slope and intercept. | [0, 1, 2], [1, 3, 5] => (2.0, 1.0)
trapezoid(f, a: float, b: float, n: int) -> float | Integrate f from a to b with n trapezoids. | lambda x: x, 0, 2, 4 => 2.0
bisect_root(f, low: float, high: float) -> float | Find a zero of a continuous function between low and high by halving. | lambda x: x - 1, 0, 3 => 1.0
simulate_queue(arrivals: list[int], service: int) -> list[int] | Return the waiting time of each customer when one clerk needs service minutes for each. | [0, 1, 10], 5 => [0, 4, 0]
fizz_list(n: int) -> list[str] | Return the numbers from 1 to n as strings, with Fizz for multiples of 3 and Buzz for multiples of 5. | 5 => ['1', '2', 'Fizz', '4', 'Buzz']
tic_tac_toe_winner(board: list[str]) -> str | Return 'X', 'O' or '-' for a board given as three strings. | ["XXX", "O-O", "---"] => 'X'
valid_sudoku_row(row: list[int]) -> bool | Check that the digits 1 to 9 occur at most once; 0 is an empty cell. | [1, 2, 0, 3, 0, 0, 0, 0, 9] => True
chess_square_color(square: str) -> str | Return 'black' or 'white' for a square such as 'a1'. | "a1" => 'black' ; "a2" => 'white'
rock_paper_scissors(one: str, two: str) -> int | Return 1 or 2 for the winning player and 0 for a draw. | "rock", "scissors" => 1 ; "paper", "paper" => 0
bowling_total(pins: list[int]) -> int | Add up the pins of an open game without strikes or spares. | [3, 4, 2, 5] => 14
shuffle_check(a: str, b: str, c: str) -> bool | Tell if c is an interleaving of a and b that keeps the order of both. | "ab", "cd", "acbd" => True
max_subarray(values: list[int]) -> int | Return the largest sum of a non-empty block of neighbours. | [-2, 1, -3, 4, -1, 2, 1, -5, 4] => 6
kth_smallest(values: list[int], k: int) -> int | Return the k-th smallest value, counting from 1. | [7, 10, 4, 3], 2 => 4
peaks(heights: list[int]) -> list[int] | Return the positions that are higher than both neighbours. | [1, 3, 2, 5, 4] => [1, 3]
move_zeros(values: list[int]) -> list[int] | Move all zeros to the end and keep the order of the rest. | [0, 1, 0, 3] => [1, 3, 0, 0]
intersect(a: list[int], b: list[int]) -> list[int] | Return the common values in ascending order without repetition. | [1, 2, 2, 3], [2, 3, 4] => [2, 3]
closest_to_zero(values: list[int]) -> int | Return the value nearest to zero; prefer the positive one on a tie. | [-2, 5, 2] => 2
parcel_cost(weight: float) -> float | Charge 4.00 for the first kilogram and 1.50 for each further kilogram begun. | 1.0 => 4.0 ; 2.2 => 7.0
water_bill(liters: int) -> float | Charge 2 cents per litre up to 1000 litres and 3 cents for each litre beyond. | 1000 => 20.0 ; 1100 => 23.0
change_coins(cents: int) -> dict[int, int] | Pay an amount with as few coins of 25, 10, 5 and 1 as possible. | 41 => {25: 1, 10: 1, 5: 1, 1: 1}
inventory_update(stock: dict[str, int], sold: dict[str, int]) -> dict[str, int] | Subtract the sold pieces and drop items with nothing left. | {'pen': 5, 'cup': 1}, {'cup': 1} => {'pen': 5}
average_by_key(rows: list[dict], key: str, value: str) -> dict | Group rows by key and average the value column. | [{'c': 'x', 'n': 2}, {'c': 'x', 'n': 4}], "c", "n" => {'x': 3.0}
flatten_keys(data: dict) -> dict | Turn nested dictionaries into one with dotted keys. | {'a': {'b': 1}, 'c': 2} => {'a.b': 1, 'c': 2}
retry_delays(attempts: int, base: float) -> list[float] | Return waiting times that double after every attempt. | 3, 0.5 => [0.5, 1.0, 2.0]
parse_version(text: str) -> tuple[int, ...] | Turn a version such as '1.20.3' into a tuple of numbers. | "1.20.3" => (1, 20, 3)
path_extension(path: str) -> str | Return the file extension in small letters without the dot, or an empty string. | "photo.JPG" => 'jpg' ; "README" => ''
human_size(num_bytes: int) -> str | Format a size with the largest fitting unit of B, KB, MB and GB and one decimal. | 1536 => '1.5 KB'
count_lines(text: str) -> dict[str, int] | Count blank lines and lines with content. | "a\\n\\nb" => {'blank': 1, 'content': 2}
censor(text: str, banned: list[str]) -> str | Replace each banned word by stars of the same length. | "what the heck", ['heck'] => 'what the ****'
""".strip().splitlines()

TASKS = r"""
Write a SQL query that lists the five customers with the highest total order value, given tables customers(id, name) and orders(id, customer_id, total).
Write a SQL statement that creates a table for library books with sensible column types and a primary key.
Given a table employees(name, department, salary), write SQL to find the average salary of each department.
Write a SQL query to find products that were never ordered, using a LEFT JOIN.
Write a JavaScript function debounce(fn, delay) and explain in two sentences how it works.
Write a JavaScript function that removes duplicates from an array of objects by their id field.
Write a small HTML page with a form that asks for a name and an email address.
Write CSS that centres a card horizontally and vertically on the page.
Write a Bash script that renames all .txt files in a folder to .md.
Write a shell one-liner that counts how many lines in access.log contain the word ERROR.
Write a Python class Stack with push, pop, peek and is_empty, with docstrings.
Write a Python class for a bank account that refuses to be overdrawn.
Implement a queue in Python with two stacks.
Implement a singly linked list in Python with methods append, prepend and reverse.
Write a Python program that reads a text file and prints its ten most frequent words.
Write a Python decorator that measures how long a function takes.
Write a Python context manager that changes the working directory and restores it afterwards.
Write unit tests with pytest for a function divide(a, b) that raises ValueError when b is zero.
Explain what this Python line does: squares = {n: n ** 2 for n in range(10) if n % 2}
Explain step by step what happens in this code: a, b = 0, 1; while a < 50: print(a); a, b = b, a + b
Find the bug in this function and fix it:\n\ndef average(numbers):\n    total = 0\n    for n in numbers:\n        total = n\n    return total / len(numbers)
Find and fix the error:\n\ndef is_even(n):\n    if n % 2 = 0:\n        return True\n    return False
This code is slow for long lists. Make it faster:\n\ndef has_duplicates(items):\n    for i in range(len(items)):\n        for j in range(len(items)):\n            if i != j and items[i] == items[j]:\n                return True\n    return False
Rewrite this loop as a list comprehension:\n\nresult = []\nfor word in words:\n    if len(word) > 3:\n        result.append(word.upper())
Add type hints and a docstring to this function:\n\ndef area(w, h):\n    return w * h
Translate this Python function to JavaScript:\n\ndef greet(name, polite=True):\n    if polite:\n        return f"Good day, {name}."\n    return f"Hi {name}!"
Translate this JavaScript to Python:\n\nfunction sum(arr) { return arr.reduce((a, b) => a + b, 0); }
What is the time complexity of binary search, and why? Show a short Python version.
What is the difference between a list and a tuple in Python? Give a code example.
Write a regular expression that matches dates in the form 2024-05-31 and explain its parts.
Write a recursive function in Python to print all files below a folder.
Write a Python generator that yields the Fibonacci numbers below a limit.
Write a Java method that checks whether a string reads the same backwards.
Write a C function that swaps two integers through pointers and show how to call it.
Write a C++ program that reads ten numbers and prints the largest.
Write a Go function that reverses a slice of integers in place.
Write a Rust function that counts the vowels in a string slice.
Write a Dockerfile for a small Python web application and comment each line.
Write a Python script that downloads nothing but reads a local JSON file and prints all keys sorted.
Write a Flask route that returns the current time as JSON.
Write a Python function that logs in to nothing but checks a user name and password against a dictionary.
Show how to handle a missing file in Python with try and except.
Write pseudo code for an elevator that serves five floors.
Write a Python script with argparse that converts kilometres to miles.
""".strip().splitlines()
