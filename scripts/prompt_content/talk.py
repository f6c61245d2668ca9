# ruff: noqa: E501, SIM905
"""Dialogue, writing, reasoning and extraction material. Knows nothing about row formats.

Dialogue lines are `first turn || second turn`; a family line is `wording with {} | filling ; filling ; ...`.
"""

DIALOGUES = """
I want to learn to play the piano at the age of fifty. Is that realistic? || How much should I practise each week?
Can you recommend a good book for a long flight? || I prefer something funny. Any other ideas?
My houseplant has yellow leaves. What might be wrong? || I water it every day. Could that be the problem?
What is the difference between baking soda and baking powder? || Can I replace one with the other in pancakes?
Explain how rainbows are formed. || Now explain it again so that a six-year-old understands.
Which city should I visit in autumn, Vienna or Lisbon? || I have only two days. Please make a plan for your choice.
How do I write a good cover letter? || Write a short one for a job in a bookshop.
Tell me about the history of tea. || How did it come to England?
Give me three ideas for a science project at school. || Choose the cheapest one and list the materials.
I had an argument with my best friend about money. What should I do? || What if she does not answer my messages?
What are the rules of badminton? || How is it different from tennis?
Describe how volcanoes erupt. || Name three famous eruptions and what happened afterwards.
I need a healthy breakfast that is quick to make. || I am allergic to nuts. Does that change anything?
Help me choose a pet for a small flat. || And which one of them needs the least time?
What does a software tester do? || Which skills should I learn first?
How can I improve my handwriting? || Give me a five-minute exercise for every day.
Write a short poem about a train station. || Make it rhyme and add a dog.
Explain the Pythagorean theorem. || Use it to find the diagonal of a room of 6 by 8 metres.
Why do we have different time zones? || If it is noon in London, what time is it in Tokyo?
What is the plot of Macbeth? || Which scene do you think is the most important, and why?
Name some good exercises for a sore back. || I sit at a desk all day. What else can I change?
How do I make friends in a new town? || I am rather shy, so clubs are hard for me.
Suggest a name for a detective in a crime novel. || Write the first paragraph in which the detective appears.
How are clouds classified? || Which of them bring rain?
What should I know before I adopt an old dog? || How do I introduce it to my cat?
List the planets with rings. || What are those rings made of?
How does a bank make money? || And why do interest rates change?
I would like to bake bread but I have no yeast. || Which of these is the easiest for a beginner?
Tell me a joke about elephants. || Explain why that joke is funny.
What is photosynthesis? || Write the chemical equation and explain each part.
My laptop is very slow. What can I do? || I have already restarted it. What next?
Explain what a recursive function is. || Show an example in Python that adds up a list.
What are the main ideas of Buddhism? || How do they differ from those of Stoicism?
Plan a birthday party for a seven-year-old who loves dinosaurs. || It will rain. Please move everything indoors.
How do I ask my boss for a raise? || Let us practise. You are my boss and I have just asked for a talk.
What is a good strategy for playing checkers? || What should I do when I am behind?
Write a sentence with five words that all begin with the letter B. || Now do the same with the letter S.
How do electric cars work? || What happens to the batteries when they are old?
Describe the climate of the Sahara. || Which animals can live there?
Give me a short introduction to impressionism. || Name three painters and one work of each.
I am nervous about a speech at a wedding. || Can you write a friendly opening of three sentences?
What is the function of the kidneys? || How can I keep them healthy?
How can I stop biting my nails? || That did not help last time. Anything less obvious?
Explain what a democracy is. || What are the typical problems of it?
Write a limerick about a lazy cat. || Change the cat into a parrot.
Who were the Phoenicians? || What did they contribute to writing?
What should be in a first-aid kit? || Which of these things expire?
How do I calculate the area of a circle? || What is it for a radius of five centimetres?
Suggest a vegetarian dish for a barbecue. || How long does it take and what do I have to buy?
What is the best way to learn to swim as an adult? || I am afraid of deep water.
Explain the difference between a comet and an asteroid. || Has one of them ever hit the Earth?
Which musical instrument is easiest for a child? || My neighbours are sensitive to noise.
Can you explain how elections work in a parliament? || What is a coalition?
Give me an idea for a short story set on a space station. || Write the ending first, in about eighty words.
How should I store potatoes and onions? || Why should they not be kept together?
What does a project manager do all day? || Write a sample agenda for a weekly meeting.
Describe the character of a good friend. || Which of these qualities is the rarest, and why?
What is the largest mammal? || How does it sleep?
How was paper made in the past? || And how is it recycled today?
I found an old coin in my garden. || It shows a ship and the year 1820. What could it be worth?
Convert 5 miles to kilometres. || And how long does it take to walk that distance?
Create a short fitness plan for a busy parent. || Replace running, because of my knee.
Teach me three phrases in Italian for a restaurant. || How do I ask for the bill?
What are black swans in economics? || Give two examples from the last fifty years.
Explain why bread goes stale. || How can I use it up?
Write a tweet about a lost umbrella. || Rewrite it as a formal notice.
How do you tell a frog from a toad? || Do they live in the same places?
Is it better to study in the morning or at night? || I work until six every day.
Write a dialogue between a spoon and a fork. || Continue it. A knife comes in.
What is the difference between mass and weight? || What would I weigh on the Moon if I weigh 60 kilograms here?
""".strip().splitlines()

ROLES = """
a patient librarian in a small town | I am looking for a book about the sea, but I forgot its title. ; The cover was green, I think.
a ship's captain in the eighteenth century | What do you see from the deck this morning? ; A storm is coming. Give your orders.
a friendly chef | What can I do with three tomatoes and an onion? ; I also found some rice.
a job interviewer at a software company | I am ready for the first question. ; I have never led a team, but I taught a course.
a museum guide in front of a dinosaur skeleton | How old is this one? ; Did it eat plants or meat?
a wise old tree | What have you learned in three hundred years? ; Were you ever afraid?
a customer who wants to return a broken kettle | Good morning, how may I help you? ; Do you have the receipt with you?
a doctor who explains things calmly | I cannot sleep at night. What can I do? ; Should I take pills?
a detective who questions me about a stolen necklace | I was at home all evening. ; Yes, my brother can confirm that.
a travel agent | I want to go somewhere warm in February. ; My budget is small.
a football coach before the final | We are all nervous. What do you tell us? ; And if we lose?
a robot that has just woken up | Hello. Do you know where you are? ; Is there something that you would like to see?
a gardener who loves roses | My roses have black spots. ; What should I do in winter?
a knight who is afraid of horses | How do you travel to the tournament? ; What does the king say about it?
a maths tutor who never gives the answer away | I do not know how to start: 3x + 5 = 20. ; I think I have to subtract five.
a radio host | We are live. Please welcome the listeners. ; A caller asks for advice about moving to the country.
a time traveller from the year 2300 | What do people eat in your time? ; What surprised you most about us?
an alien who visits a supermarket | What do you think of this place? ; And what is that in your basket?
a tailor | I need a suit for a summer wedding. ; What colour do you suggest?
an astronaut on the first day in orbit | What does the Earth look like? ; How do you eat up there?
a lighthouse keeper who talks to the sea | How was your night? ; Do you ever feel lonely?
a strict editor | Here is my first sentence: It was a dark night. ; Is this better: No lamp was lit in the village that night?
a park ranger | We saw fresh bear tracks. What should we do? ; May we light a fire?
a language teacher who corrects my English | Yesterday I go to the cinema with my friends. ; It was much funny.
a philosopher in ancient Athens | What is a good life? ; But what about bad luck?
""".strip().splitlines()

FOLLOW_UPS = [
    "Now say it in a single sentence.", "Can you give an example?", "Please make it shorter and friendlier.", "What is the strongest argument against this?",
    "Rewrite your answer as a list with three points.", "Which part of this is most important for a beginner?", "Turn your answer into a short dialogue.",
    "Add a surprising detail.", "How sure are you about that, and why?", "Explain it with a comparison from everyday life.", "What should I read or try next?",
    "Write the same thing for a child.", "Name one common mistake people make here.", "What would change if I had only ten minutes?", "Could you put that into a table?",
    "Give it a title and a closing sentence.",
]

OPENERS = """
Write a short paragraph about {}. | the value of boredom ; trains at night ; learning from mistakes ; your favourite season ; the future of libraries ; the sound of rain ; small acts of kindness ; the invention of the wheel ; why people collect things ; sharing a kitchen ; cities without cars ; handwritten letters
Tell me about {}. | the northern lights ; the history of pizza ; the giant panda ; the Inca roads ; sign language ; tidal power ; the game of go ; honey bees ; the Rosetta Stone ; the first photograph ; deserts that bloom ; origami
How would you solve this problem: {}? | two colleagues do not speak to each other ; a town has too many pigeons ; my children fight over the tablet ; the office coffee is terrible ; nobody comes to our club meetings ; the bus is always late ; my neighbour plays the drums at night ; I keep losing my keys
Give your opinion on {}. | homework in primary school ; tipping in restaurants ; a four-day working week ; free public transport ; shops that open on Sundays ; learning Latin ; zoos ; paper books and e-books ; school lunches ; early bedtimes
""".strip().splitlines()

WRITING = """
Write a short story about {}. | a clock that runs backwards ; a girl who finds a map in a library book ; two rivals stuck in a lift ; the last bus of the night ; a baker whose bread makes people honest ; a fisherman who catches a letter ; a village where nobody sleeps ; an old robot and a stray cat ; a piano that plays by itself ; twins who swap jobs for a day ; a winter without snow ; the boy who counted stars ; a painter who loses the colour red ; an umbrella with a will of its own ; a dragon who is afraid of heights ; the day all phones went silent
Write an email to {}. | a landlord about a broken heating system ; a teacher to explain an absence ; a hotel to change a booking ; colleagues to announce a new kitchen rule ; a customer whose order is late ; an old friend you have not seen for ten years ; a professor to ask for a letter of recommendation ; a neighbour to apologise for noise ; a team to thank them after a hard project ; a company to cancel a subscription ; a job applicant who was not chosen ; parents about a school trip ; the city council about a dangerous crossing ; a supplier to ask for a discount
Write a poem about {}. | a lost glove ; the first day of spring ; an empty house ; a grandmother's garden ; the ocean at night ; city pigeons ; a cup of coffee ; growing old ; the colour green ; an unfinished letter ; thunder ; a migrating goose
Write a blog post about {}. | a week without a smartphone ; cooking with leftovers ; a hike that went wrong ; starting to run at sixty ; five quiet places in a loud city ; learning to sew ; visiting a cheese factory ; how to read more ; my first time on stage ; travelling by night train ; repairing things instead of buying them ; what gardening teaches about patience
Write an essay of about two hundred words on {}. | the meaning of courage ; why history matters ; the role of chance in life ; whether animals have rights ; the power of music ; life in a small town ; honesty in politics ; what makes a good question ; the influence of advertising ; friendship in the digital age ; the importance of sleep ; sport and fairness
Write a letter from the point of view of {}. | a soldier who comes home tomorrow ; a tree to the people of its street ; a child at summer camp ; an explorer lost in the ice ; a dog to its owner ; a queen who wants to resign ; a scientist in the year 2100 ; a goldfish ; a lighthouse ; a forgotten teddy bear
Write an advertisement for {}. | a barber shop for beards ; a mountain hut with a view ; a language school ; a slow-food restaurant ; a repair cafe ; a bicycle with one gear ; a night-time zoo tour ; a choir for people who cannot sing ; a brand of rain boots ; a farm holiday
Write the opening scene of {}. | a comedy about a family reunion ; a mystery in a chess club ; a science fiction novel on an ocean planet ; a ghost story in a hotel ; a western with a female sheriff ; a play about two clowns ; a romance in a bakery ; an adventure in a cave ; a thriller on a ferry ; a fairy tale without magic
Write a speech for {}. | the opening of a swimming pool ; a graduation ceremony ; a captain of a losing team ; a friend's sixtieth birthday ; the start of a charity run ; a debate in favour of trams ; a school's hundredth anniversary ; the launch of a small newspaper
Write a review of {}. | a restaurant that only serves soup ; an album of lullabies ; a hiking boot ; a museum of mirrors ; a film about a chess player ; a city bus tour ; a self-made bookshelf ; a cooking course ; a folding bicycle ; an audio guide
Write a diary entry of {}. | the first day in a new country ; a sailor in a calm ; a pupil before the holidays ; a baker at four in the morning ; a nurse after a long shift ; a cat in a new flat ; an inventor whose machine works at last ; a tourist who missed the train ; a gardener in a drought
Write a dialogue between {}. | a fox and a hen ; two strangers on a bench ; a mother and a son who wants to drop out ; the Sun and the Moon ; a waiter and an impatient guest ; an old phone and a new one ; a student and a professor about grades ; a thief and a parrot ; a king and his cook ; two mountaineers in a tent
Write a social media post that announces {}. | the opening of a plant shop ; a lost cat ; a neighbourhood concert ; a new podcast ; a job offer at a bakery ; a blood donation day ; a book swap ; the end of a long renovation ; a guided walk ; a cooking contest
""".strip().splitlines()

PEOPLE = "Anna Ben Clara David Emma Finn Grace Henry Iris Jack Kate Leo Maya Noah Olive Paul Ruby Sean Tess Walt".split()

REASONING = """
{p} is taller than {q}, and {q} is taller than {r}. Who is the shortest of the three, and how do you know?
If all {x} are {y} and some {y} are {z}, does it follow that some {x} are {z}? Explain.
{p}, {q} and {r} finished a race. {p} was not first, {q} was not last, and {r} came in directly after {q}. In which order did they finish?
Yesterday was {d}. What day will it be in {n:9-60} days? Explain your reasoning.
{p} lives two floors above {q}. {r} lives one floor below {q}. If {p} lives on floor {n:5-12}, where does {r} live?
A lamp in the cellar is controlled by one of three switches on the ground floor. {p} may go down only once. How can {p} find out which switch it is?
There are {n:4-9} people at a party and everyone shakes hands with everyone else exactly once. How many handshakes are there?
{p} says that {q} is lying. {q} says that {r} is lying. {r} says that both are lying. Who tells the truth?
Which of these does not belong with the others, and why: {odd}?
Complete the analogy and explain it: {ana}
A farmer wants to take {pet} across a river, but the boat is small. What must the farmer watch out for, and what is the order of trips?
{p} has two jugs, one of {n:3-3} litres and one of {m:5-5} litres. How can exactly {k:4-4} litres be measured for {q}?
The streets were wet when {p} woke up, so {p} said that it had rained. Is this conclusion certain? Name {n:2-4} other explanations.
A shop says that {n:60-90} per cent of its customers who wrote a review were happy. {p} concludes that most customers are happy. What is wrong with that?
If it snows, the school is closed. Today the school is closed. {p} says that it must have snowed. Is {p} right?
{p} can paint a room in {n:3-6} hours and {q} in {m:7-12} hours. Estimate first, then compute how long they need together.
What is more likely: that {p}, who loves {hob}, works as a librarian, or that {p} works in an office and loves {hob}? Explain.
Three boxes are labelled wrongly: {box}, and both. {p} may take one piece from one box. From which box should {p} take it?
Why might {why}? Give two possible reasons and say how you could test them.
{p} must be at work at {n:7-9} o'clock. The walk takes {m:12-25} minutes, the bus {k:5-11} minutes but it runs only every half hour. What should {p} do, and what does it depend on?
""".strip().splitlines()

REASONING_SLOTS = {
    "x": "roses|poodles|violins|squares|sparrows".split("|"), "y": "flowers|dogs|instruments|rectangles|birds".split("|"),
    "z": "red things|small things|old things|blue things|loud things".split("|"), "d": "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday".split("|"),
    "odd": ["apple, pear, carrot, plum", "violin, trumpet, cello, harp", "Mars, Venus, Moon, Saturn", "shark, dolphin, trout, herring", "two, three, five, nine", "hammer, saw, nail, drill",
            "river, lake, desert, pond", "iron, gold, wood, copper", "sonnet, novel, statue, play", "walk, run, sit, jump"],
    "ana": ["bird is to nest as bee is to what?", "pen is to write as knife is to what?", "kitten is to cat as foal is to what?", "author is to book as composer is to what?", "hot is to cold as generous is to what?",
            "foot is to shoe as hand is to what?", "Paris is to France as Cairo is to what?", "leaf is to tree as page is to what?", "fish is to gills as human is to what?", "minute is to hour as month is to what?"],
    "pet": ["a fox, a goose and a bag of beans", "a wolf, a goat and a cabbage", "a cat, a mouse and a cheese"], "hob": ["poetry and quiet walks", "old maps", "puzzles and chess"],
    "box": ["nuts, raisins", "screws, nails", "tea, coffee"],
    "why": ["a shop be full on a rainy day", "a plant grow better in one corner of a room", "sales of ice cream and sunburn rise together", "a town have fewer accidents after it removed traffic lights",
            "pupils who eat breakfast have better marks", "a website lose half of its visitors in a week", "a clock run slow in winter", "birds leave a lake in the middle of summer"],
}

EXTRACTION = r"""
Extract all names and dates from this text: {note}
Read the message and list who has to do what by when.\n\n{note}
Turn this note into JSON with the keys "person", "place", "date" and "amount".\n\n{note}
List every number in the passage and say what it stands for.\n\n{note}
From the text below, find the place, the time and the reason.\n\n{note}
Make a table with the columns who, what and when from this note: {note}
Answer with one line each: who wrote this, what is wanted, and how urgent is it?\n\n{note}
""".strip().splitlines()

NOTES = """
{p} wrote that the boiler in {street} broke on {date} and that a repair for ${n:90-640/10} must be done before {q} moves in on {date2}.
The meeting on {date} in {street} was led by {p}. {q} will send the minutes, and {r} has to order {n:3-40} chairs before {date2}.
{p} booked {n:2-9} tickets for {date}. They cost ${m:12-48} each and have to be picked up at {street} by {q}, who travels on to the coast on {date2}.
Dear {p}, your parcel of {n:2-14} kilograms left {street} on {date}. {q} will bring it on {date2}; please have ${m:5-30} ready for the customs fee. Regards, {r}
On {date} {p} sold a red bicycle to {q} for ${n:80-420/10}. The rest of ${m:20-75/5} is due on {date2}, and {r} was the witness.
{p} and {q} met at {street} at {m:2-9} o'clock on {date} because {r} had lost the keys. The locksmith asked for ${n:70-190/5} and will return on {date2}.
Complaint no. {n:1000-9999}: {p} waited for {m:25-90} minutes at {street} on {date}. The driver, {q}, was rude. An answer is expected until {date2}.
{p}'s team planted {n:40-600/10} trees near {street} between {date} and {date2}. {q} paid for the tools, and {r} cooked for {m:12-60} helpers.
Please note: the pool in {street} closes on {date} for {n:5-30} days. {p} teaches the beginners at the school instead, and {q} takes the group of {m:8-19} children from {date2}.
The library sent {p} a reminder on {date}: {n:2-7} books are late and the fee is ${m:3-18}. {q} can return them at {street} until {date2}.
""".strip().splitlines()

STREETS = "Mill Lane|14 Harbour Street|the Old Town Hall|Rosewood Park|Platform 6|the Elm Road school|the north gate|27 Canal Row|the corner cafe|Studio B".split("|")
DATES = "3 March|14 May|29 June|8 August|21 September|5 October|17 November|2 December|11 January|26 February|9 April|30 July".split("|")
