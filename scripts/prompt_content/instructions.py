# ruff: noqa: E501
"""General instructions: single ones written out, and families of a wording with the topics that fit it.

Knows nothing about row formats. A family line is `wording with {} | topic ; topic ; ...`.
"""

SINGLES = """
Give three tips for staying awake during a long drive.
Explain how a refrigerator keeps food cold.
Describe the taste of a ripe mango to someone who has never had one.
Suggest a name for a small bakery run by two sisters.
What should I pack for a weekend of camping in the rain?
Give me a recipe for a simple lentil soup.
Explain the offside rule in football to a ten-year-old.
List five ways to reduce plastic waste at home.
Come up with a slogan for a bicycle repair shop.
How can I make my small kitchen feel bigger?
What are the advantages and disadvantages of living in a big city?
Plan a three-day visit to a town by the sea for a family with two children.
Describe the life cycle of a frog.
How do I politely turn down an invitation to a wedding?
Suggest five healthy snacks that need no cooking.
Explain why regular exercise is good for the heart.
What is a good way to learn twenty new words of a foreign language every week?
Write a riddle whose answer is a shadow.
Give a short definition of inflation and an example from daily life.
How do I remove a coffee stain from a white shirt?
Name four famous bridges and say where each of them stands.
Describe how a bill becomes law in the United States.
What questions should I ask before I rent a flat?
Propose a weekly cleaning plan for a flat shared by three students.
Explain the difference between weather and climate.
Give two arguments for and two arguments against school uniforms.
Invent a new holiday and describe how people would celebrate it.
How does a microwave oven heat food?
List the steps for planting a tree.
Suggest three board games for a group of six and say why each one is fun.
What does the proverb a stitch in time saves nine mean?
Explain how noise-cancelling headphones work.
How should I prepare for my first job interview?
Describe the smell of a forest after rain.
Give me a morning routine that takes less than thirty minutes.
What are some good questions for getting to know a new colleague?
Create a packing list for a baby's first flight.
Explain what a credit score is and how to improve it.
How can a shy person become more confident in meetings?
Suggest a birthday present for a grandfather who likes to cook.
Explain in simple words how the internet works.
What is the best way to store fresh herbs?
Write a haiku about the first snow.
Describe three traditional dances from different countries.
How do I change a flat tyre on a bicycle?
List common mistakes people make when they start running.
What are the main differences between cats and dogs as pets?
Give an example of irony and explain why it is ironic.
Create a five-question quiz about the solar system, with answers.
Explain the greenhouse effect to a child.
Suggest a title for a documentary about deep-sea fishermen.
How can I save money on my electricity bill?
Describe the job of an air traffic controller.
Design a simple workout without equipment.
What is the difference between a virus and a bacterium?
Give me five conversation starters for a dinner party.
How does a sundial tell the time?
Explain the phrase to bite the bullet and use it in a sentence.
What should I do if I lose my passport abroad?
Name some animals that change their colour and explain why they do it.
Describe a perfect rainy Sunday.
Make a to-do list for moving to a new city.
Explain the water cycle in five sentences.
What makes a good team leader?
Tell me a fun fact about octopuses.
Describe how to brew a good cup of tea.
How do I write a will, in general terms?
Give three examples of renewable energy and compare them.
What are the health benefits of walking every day?
Outline a speech for a retirement party.
How do I teach a dog to sit?
Why do people disagree about the best way to cook rice?
List some famous inventions of ancient China.
Give me advice for keeping a friendship alive over a long distance.
What is peer pressure and how can a teenager deal with it?
Explain the role of the heart, the lungs and the blood in breathing.
Suggest improvements for a city park that few people visit.
Write a warning sign for a slippery floor that is polite and funny.
Which skills does a good teacher need?
How is chocolate made from cocoa beans?
Explain supply and demand with the example of umbrellas on a rainy day.
Suggest five names for a friendly robot.
Give me a checklist for buying a used laptop.
What can I cook with eggs, potatoes and spinach?
Explain why the Moon shows phases.
How would you describe the colour blue to a blind person?
What are the pros and cons of working from home?
Create a schedule for learning the guitar in three months.
Describe the rules of a game that can be played with a ball and a wall.
Tell me how to fold a paper boat.
Name ten things you can find in a desk drawer.
What are good habits for protecting your eyes at a computer?
Explain what a metaphor is and give three examples.
Suggest a weekend trip for someone who loves trains.
How do glaciers shape the landscape?
What would happen if the Earth had two moons?
Describe an invention that would help elderly people.
Give some tips for taking better pictures with a phone.
How can parents encourage children to read?
Explain how to compost kitchen waste on a balcony.
What is the scientific method? Use a simple experiment as an example.
Make a table that compares three kinds of bread.
How do I fall asleep faster without medicine?
Write a short thank-you message for a host.
Explain the idea of opportunity cost with an example.
Suggest rules for a classroom of eight-year-olds.
What are the warning signs of a failing car battery?
Describe a typical meal in Ethiopia.
Which plants grow well in the shade?
Explain the difference between a simile and a metaphor.
How can a small shop compete with a large online store?
Give me a list of verbs that can replace the word said.
What is the purpose of a constitution?
Name five careers for people who like working outdoors.
""".strip().splitlines()

FAMILIES = """
Explain {} in simple terms. | how vaccines train the immune system ; compound interest ; why the sea is salty ; how a solar panel makes electricity ; what a black hole is ; how coral reefs form ; what gravity does ; how bread rises ; the electoral college ; how a search engine works ; blockchain ; natural selection ; how earthquakes happen ; what DNA is ; how airplanes fly ; machine learning ; the stock market ; how soap cleans ; what jet lag is ; probability
Give me {} tips for a beginner. | five gardening ; four photography ; six chess ; three public speaking ; five budgeting ; four swimming ; six baking ; five meditation ; three skiing ; four birdwatching ; five knitting ; three watercolour painting
Make a list of ten {}. | things to do on a long train ride ; animals that live in the desert ; gifts under twenty dollars ; adjectives for a stormy night ; vegetables that can be eaten raw ; jobs that did not exist fifty years ago ; indoor games for children ; ways to say thank you ; inventions of the twentieth century ; books that are set on islands ; words that rhyme with light ; questions for a job candidate
Compare and contrast {}. | tea and coffee ; democracy and monarchy ; online classes and classroom lessons ; novels and short stories ; electric cars and petrol cars ; bees and wasps ; renting and buying a home ; running and swimming ; the Sun and the Moon ; jazz and classical music ; lakes and oceans ; leadership and management
Write one sentence that uses the word {}. | reluctant ; meticulous ; harbour ; nevertheless ; abundance ; fragile ; whistle ; thrifty ; horizon ; persuade
Give a synonym and an antonym for the word {} and use both in sentences. | brave ; generous ; ancient ; noisy ; rapid ; gloomy ; scarce ; polite ; rough ; humble
Classify the following items as {} | fruits or vegetables: carrot, plum, spinach, cherry, leek ; mammals, birds or reptiles: gecko, otter, heron, bat, turtle ; solid, liquid or gas at room temperature: oxygen, iron, olive oil, helium, sugar ; countries or cities: Peru, Lagos, Oslo, Laos, Lima ; string, wind or percussion instruments: cello, drum, flute, harp, trumpet ; renewable or non-renewable: coal, wind, sunlight, oil, tides ; needs or wants: shelter, video game, water, jewellery, medicine ; verbs or nouns: decide, freedom, argue, kitchen, sleep ; formal or informal: greetings, hey, sincerely, what's up, regards ; healthy or unhealthy snacks: almonds, crisps, yoghurt, candy, apple slices
Rewrite the sentence in a more formal style: {} | We can't make it tonight, sorry! ; Gimme the report when you're done. ; That plan is kind of a mess. ; The boss was super mad about the delay. ; Thanks a bunch for fixing my computer. ; You guys need to show up on time. ; The food there is awesome but it costs a ton. ; I dunno why the printer broke again. ; Let me know if you wanna come along. ; This movie was a total waste of time.
Change this sentence to the passive voice: {} | The gardener waters the roses every morning. ; A loud noise woke the neighbours. ; The committee will choose a new chairman. ; Two students have solved the puzzle. ; The storm damaged the old roof. ; Someone stole my umbrella. ; The chef is preparing a special menu. ; The museum sold three paintings.
Correct the grammar of this sentence: {} | Him and me goes to the market yesterday. ; She don't like nobody in the office. ; The childs was playing with there toys. ; I have saw that movie last week. ; Each of the players have their own locker. ; If I would know, I had told you. ; The informations are not enough for us. ; He speak English very good. ; Me brother he work in a bank since ten years. ; Its to late too go their now.
Find the sentiment of this review and explain your choice: {} | The hotel room was small, but the staff could not have been kinder. ; I waited an hour for cold noodles. Never again. ; The blender does what it should, nothing more. ; This is the third pair I have bought, and I love them! ; The plot drags, although the music is beautiful. ; My parcel arrived late and the box was crushed. ; A charming little cafe with the best scones in town. ; The app crashes whenever I open the settings. ; Not bad for the price, but I expected more. ; The guide made a rainy day unforgettable.
Translate this sentence into {} | French: The library opens at nine o'clock. ; Spanish: My sister has a small black dog. ; German: We would like a table for four people. ; Italian: The train to the coast is late again. ; Spanish: Where can I buy a ticket for the museum? ; French: I am learning to play the piano. ; German: It will be cold and windy tomorrow. ; Portuguese: Thank you for your help.
Turn these notes into a full sentence: {} | meeting moved, Thursday, 3 pm, room 12 ; dog lost, brown, red collar, near station ; rent due, first of month, bank transfer only ; printer broken, technician Monday, use second floor ; picnic Saturday, bring salad, rain plan gym ; shop closed, inventory, open again Wednesday ; flight delayed, two hours, new gate B7 ; book club, chapter five, Anna's house, bring tea
What would you advise someone who {}? | wants to change careers at forty ; cannot stop checking their phone ; is afraid of flying ; has to share a room with a noisy roommate ; wants to start a vegetable garden ; lost touch with an old friend ; feels nervous before exams ; has just adopted a kitten ; wants to write a first novel ; is moving abroad for work ; argues with a sibling all the time ; wants to eat less sugar ; is planning a first marathon ; has too many meetings
Describe {} in about one hundred words. | a lighthouse in a storm ; an old watchmaker at work ; a market at dawn ; the sound of an orchestra tuning ; a desert at night ; your ideal library ; a crowded underground train ; a garden that has been left alone for years ; the first day of school ; a frozen lake ; the kitchen of a busy restaurant ; a mountain village in winter ; an empty football stadium ; a bus station at midnight
Brainstorm ideas for {}. | a school fundraiser ; a mobile app for hikers ; a community garden ; a podcast about local history ; a surprise party for a nurse ; reusing glass jars ; a mural in a train station ; a children's museum ; reducing food waste in a canteen ; a short film without dialogue ; a farewell gift for a coach ; making a waiting room friendlier ; a science fair project about sound ; a charity run
Write step-by-step instructions for {}. | making a paper airplane ; repotting a house plant ; boiling the perfect egg ; setting up a tent ; sewing on a button ; packing a suitcase for a business trip ; washing a wool sweater by hand ; cleaning a cast-iron pan ; making fresh lemonade ; backing up the photos on a phone ; tying a bow tie ; painting a wall ; giving a cat a pill ; building a bird house ; sharpening a kitchen knife ; making pizza dough
What are the main causes of {}? | soil erosion ; stress at work ; traffic jams ; the fall of the Aztec Empire ; high blood pressure ; forest fires ; the First World War ; lack of sleep ; water shortages ; the extinction of species ; rising house prices ; misunderstandings in e-mails
Give a brief history of {}. | the bicycle ; chess ; the Olympic torch ; coffee ; the postage stamp ; the umbrella ; writing systems ; the sewing machine ; the lighthouse ; jazz ; the computer mouse ; paper money ; the piano ; glass windows ; the calendar ; the pencil
Who was {} and why are they remembered? | Ada Lovelace ; Simon Bolivar ; Hypatia of Alexandria ; Nikola Tesla ; Florence Nightingale ; Ibn Battuta ; Rosa Parks ; Johannes Gutenberg ; Wangari Maathai ; Galileo Galilei ; Sitting Bull ; Emmy Noether ; Confucius ; Amelia Earhart ; Leonardo da Vinci ; Frida Kahlo ; Louis Pasteur ; Toussaint Louverture ; Jane Goodall ; Archimedes
Suggest a menu for {}. | a vegetarian dinner for six ; a picnic without bread ; a child's birthday party ; a cold winter evening ; a quick lunch at the office ; a brunch with friends ; a guest with a nut allergy ; a week of cheap student meals ; a festive autumn meal ; a hot summer night
Write a catchy headline for an article about {}. | a town that banned cars from its centre ; a grandmother who learned to surf ; the return of wolves to a valley ; a shortage of school teachers ; a record harvest of apples ; robots in a hospital ; the oldest cinema in the country ; a bakery that never closes ; a storm that missed the coast ; a library of borrowed tools
Explain the meaning of the saying {} and give an example. | too many cooks spoil the broth ; actions speak louder than words ; do not judge a book by its cover ; the early bird catches the worm ; when in Rome, do as the Romans do ; a rolling stone gathers no moss ; birds of a feather flock together ; you cannot have your cake and eat it ; every cloud has a silver lining ; look before you leap ; still waters run deep ; let sleeping dogs lie
Summarise the plot of {} in a few sentences. | Cinderella ; Romeo and Juliet ; Moby-Dick ; The Three Little Pigs ; Robinson Crusoe ; Hamlet ; The Tortoise and the Hare ; Treasure Island ; Alice in Wonderland ; A Christmas Carol ; Little Red Riding Hood ; Don Quixote
Write three questions a journalist could ask {}. | an astronaut who is back from space ; the mayor of a flooded town ; a chef who lost a star ; a retired goalkeeper ; a beekeeper ; the inventor of a silent drone ; a nurse on the night shift ; a marathon winner ; a lighthouse keeper ; a young violinist
What are the benefits and risks of {}? | social media for teenagers ; eating only raw food ; self-driving cars ; nuclear power ; keeping wild animals in zoos ; tourism for small islands ; artificial sweeteners ; video games ; early specialisation in sport ; cash-free shops ; high-speed rail ; robots in nursing homes
Sort these {} | words alphabetically: walnut, cedar, birch, maple, aspen ; numbers from small to large: 47, 8, 112, 3, 59, 21 ; planets by size: Mars, Jupiter, Earth, Neptune, Mercury ; events by date: moon landing, French Revolution, fall of the Berlin Wall, printing press ; animals by typical weight: mouse, horse, elephant, cat, goose ; months by number of letters: May, October, June, February, August ; units of time from short to long: week, second, decade, hour, month
Write a product description for {}. | a folding kayak ; a lamp that imitates sunrise ; handmade wool socks ; a travel mug that never leaks ; a wooden puzzle for toddlers ; a solar phone charger ; a set of garden tools ; a quiet mechanical keyboard ; an umbrella for two ; organic honey ; a backpack for photographers ; scented candles
Give an example of {} and explain it briefly. | a chemical change ; a food chain ; a win-win situation ; an oxymoron ; a prime number ; a renewable resource ; a conflict of interest ; a parasite ; a false friend between two languages ; a monopoly ; symbiosis ; a placebo
How does {}? | sleep affect memory ; music affect mood ; exercise affect the brain ; inflation affect savings ; altitude affect cooking ; deforestation affect rainfall ; advertising affect children ; caffeine affect sleep ; urban growth affect wildlife ; diet affect skin ; temperature affect batteries ; light affect plant growth
""".strip().splitlines()
