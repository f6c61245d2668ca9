# ruff: noqa: E501
"""Short factual questions in the manner of people typing into a search box. Knows no answers."""

QUESTIONS = """
Who painted the ceiling of the Sistine Chapel?
Who wrote the novel Frankenstein?
Who was the first person to walk on the Moon?
Who invented the telephone?
Who discovered penicillin?
Who composed the Four Seasons?
Who was the first president of the United States?
Who wrote Pride and Prejudice?
who is the main character in the great gatsby
Who founded the company Microsoft?
Who designed the Eiffel Tower?
Who was the first woman to win a Nobel Prize?
who sang the song thriller
Who directed the film Jaws?
Who developed the theory of general relativity?
who was the prime minister of britain for most of world war two
Who led the Salt March in India?
Who was the last pharaoh of ancient Egypt?
who played the joker in the dark knight
Who wrote the Communist Manifesto?
Who discovered the structure of DNA?
Who was the first emperor of Rome?
who created the character sherlock holmes
Who painted The Starry Night?
Who wrote the play Romeo and Juliet?
who is the god of the sea in greek mythology
Who was king of England at the time of the Battle of Hastings?
Who invented the printing press in Europe?
who wrote the lord of the rings
Who was the leader of the Soviet Union during the Cuban missile crisis?
Who is known as the father of modern chemistry?
who won the men's football world cup in 1998
Who was the first human in space?
Who painted Guernica?
who voices woody in toy story
Who wrote One Hundred Years of Solitude?
Who built the Taj Mahal and for whom?
who was the wife of king louis the sixteenth
Who formulated the laws of planetary motion?
Who discovered radioactivity?
Who was the first to sail around the Cape of Good Hope?
who wrote the music for the star wars films
Who was the founder of the Mongol Empire?
Who gave the speech that begins with I have a dream?
Who designed the Sydney Opera House?
who was the first african american baseball player in the modern major leagues
Who wrote the Odyssey?
who is the author of the harry potter books
Who proposed the heliocentric model in the sixteenth century?
Who created the World Wide Web?
When did the Berlin Wall come down?
When was the Magna Carta signed?
When did World War I begin?
when was the first iphone released
When did the Titanic sink?
When was the United Nations founded?
when did the roman empire fall in the west
When was the Declaration of Independence adopted?
When did the French Revolution start?
when is the autumn equinox in the northern hemisphere
When did India become independent?
When were the first modern Olympic Games held?
when did alaska become a state
When was the Great Fire of London?
When did humans first land on the Moon?
when did the euro become cash money
When was the Panama Canal opened?
when was the first email sent
When did the Ottoman Empire end?
When was the Suez Canal opened?
when did women get the right to vote in new zealand
When was the Eiffel Tower completed?
when did the dinosaurs die out
When did the American Civil War end?
when was sliced bread first sold
When did Mount Vesuvius bury Pompeii?
When was Nelson Mandela elected president?
when do salmon swim upstream to spawn
When did the Black Death reach Europe?
when was the first transatlantic telegraph cable laid
When did Japan open its borders to Western trade?
when is thanksgiving celebrated in canada
When did the Chernobyl disaster happen?
when did color television become common
When was the Hubble Space Telescope launched?
When did the Soviet Union break up?
when was the rubik's cube invented
When was the Bastille stormed?
when does the monsoon reach southern india
When was the first successful powered flight?
Where is Machu Picchu?
Where are the Galapagos Islands?
where does the amazon river start
Where is the headquarters of the European Central Bank?
Where was Mozart born?
where is the great barrier reef located
Where did the Industrial Revolution begin?
where do monarch butterflies spend the winter
Where is Mount Kilimanjaro?
Where is the Mariana Trench?
where was the treaty of versailles signed
Where are the Dolomites?
where does vanilla come from originally
Where is the Atacama Desert?
where is the parliament of australia
Where did the potato come from originally?
where is the strait of gibraltar
Where is insulin produced in the human body?
where is the battle of gettysburg battlefield
Where does the Danube flow into the sea?
Where is the Alhambra?
where did the olympic games start
Where is Angkor Wat?
where do penguins live in the wild
Where is the Louvre?
where is the smallest bone in the human body
Where are red blood cells made?
where is the capital of new zealand
Where did chess originate?
where is lake titicaca
Where does most of the world's coffee grow?
where was napoleon exiled after waterloo
Where is the Rosetta Stone kept today?
where is the line between europe and asia
Where is Silicon Valley?
where do emperor penguins lay their eggs
Where is the Serengeti?
where was the first electric street light used
Where is the ozone layer found?
Where did the Vikings come from?
What is the capital of Mongolia?
What is the boiling point of water at sea level in Fahrenheit?
what is the largest planet in the solar system
What is the chemical symbol for gold?
what is the longest bone in the human body
What causes the tides?
What is the currency of Switzerland?
what language do they speak in brazil
What is the speed of light in a vacuum?
What is the hardest natural substance?
what is the meaning of rsvp
What is the main ingredient of hummus?
What does the acronym NASA stand for?
what is the tallest mountain in north america
What gas do plants take in for photosynthesis?
What is the smallest country in the world?
what is the powerhouse of the cell
What are the primary colours of light?
what year did mexico become independent
What is the national animal of Scotland?
What kind of animal is a Komodo dragon?
what is the difference between a crocodile and an alligator
What does a barometer measure?
What is the deepest lake in the world?
what is the capital city of kenya
What is the study of earthquakes called?
What vitamin do people get from sunlight?
what is the ring of fire
What are the seven continents?
What does the liver do?
what is the population of iceland
What is the largest desert in the world?
What is a group of lions called?
what are the noble gases
What is the square root of 144?
What was the Cold War?
what is the fastest land animal
What is the atomic number of carbon?
What does photosynthesis produce?
what is the name of the galaxy we live in
What is the largest organ of the human body?
What was the Silk Road?
what is the oldest university in the english speaking world
What is the pH of pure water?
what holiday is celebrated on the fourteenth of february
What instrument did Louis Armstrong play?
What are the rings of Saturn made of?
what is the official language of egypt
What does a seismograph record?
What is the main cause of the seasons on Earth?
what is the most spoken native language in the world
What is the chemical formula of table salt?
What was the name of the first artificial satellite?
what is the freezing point of mercury
What is the unit of electrical resistance?
What is the function of white blood cells?
what do koalas eat
What is the largest ocean on Earth?
What is an eclipse of the Moon?
what is the busiest port in europe
What sport is played at Wimbledon?
What is the legislature of Japan called?
what is the symbol for the element iron
What metal is liquid at room temperature?
what is the name of the longest river in africa
What is the theory of plate tectonics?
What is the literary term for a comparison with like or as?
what is the highest waterfall in the world
What is the process by which water turns to vapour?
What was the Renaissance?
what colour is the blood of an octopus
What do the stripes on the American flag stand for?
What is a haiku?
what is the second most abundant gas in the atmosphere
What is the name of the prison island in San Francisco Bay?
How many bones does an adult human have?
How many players are on a volleyball team?
how many moons does mars have
How long does it take light from the Sun to reach Earth?
how many strings does a violin have
How many states does Germany have?
How old is the Earth?
how deep is the grand canyon
How many chambers does the human heart have?
How far away is the Moon?
how many time zones does russia have
How do bees make honey?
how does a vaccine work
How many keys are on a piano?
How tall is Mount Everest?
how many players are in a cricket team
How is glass made?
how long was the hundred years war
How many teeth does an adult have?
how does a rainbow form
How many litres are in a gallon?
How did the Great Depression begin?
how long is a marathon in miles
How many symphonies did Beethoven write?
how do fish breathe under water
How many sides does a dodecahedron have?
how often does halley's comet return
How are diamonds formed?
how many countries are in the african union
How hot is the surface of Venus?
Why is the sky blue?
Why do leaves change colour in autumn?
why do cats purr
Why did the Roman Republic become an empire?
why is the dead sea so salty
Why do we have leap years?
why does ice float on water
Why was the Great Wall of China built?
why do onions make you cry
Why did the dodo become extinct?
why is pluto no longer a planet
Why do birds migrate?
Why was the Suez crisis important?
why do we dream
Why does metal feel colder than wood?
Which planet has the most moons?
Which country has the longest coastline?
which ocean is the smallest
Which blood type is the universal donor?
which us state is the largest by area
Which metal conducts electricity best?
which country gave the statue of liberty to the united states
Which city hosted the summer Olympics in 2012?
Which element is most abundant in the universe?
which animal has the longest pregnancy
Which two countries share the longest border?
which artist cut off part of his ear
Which organ filters the blood?
Which treaty ended the Thirty Years' War?
which king had six wives
Which languages are spoken in Belgium?
which sea lies between italy and croatia
Which philosopher taught Alexander the Great?
which scientist formulated the three laws of motion
Which sport uses the terms love, deuce and advantage?
which countries border lake victoria
Which fruit has its seeds on the outside?
Is a tomato a fruit or a vegetable?
Is the Great Wall of China visible from space?
is a whale a mammal
Does sound travel faster in water or in air?
Can plants grow without soil?
do spiders have six or eight legs
Are bats blind?
Was Cleopatra Egyptian or Greek?
name three countries that lie on the equator
Name the five Great Lakes of North America.
Name the planets in order from the Sun.
name two authors of the beat generation
Name the four houses at Hogwarts.
name the parts of a flower
In which city is the Colosseum?
In what country did tulips first grow wild?
in which year did man first reach the south pole
In which sport can you win the Davis Cup?
On which river does Vienna lie?
From what language does the word algebra come?
at what temperature does paper burn
During which century did Shakespeare live?
To which family of instruments does the oboe belong?
in which ocean is madagascar
""".strip().splitlines()

FAMILIES = """
What is the capital of {}? | Portugal ; Ghana ; Chile ; Nepal ; Finland ; Morocco ; Cuba ; Jordan ; Estonia ; Vietnam ; Uruguay ; Zambia
what is {} known for | the city of detroit ; the town of bayreuth ; marie curie ; the state of idaho ; the island of crete ; ernest shackleton ; the city of kyoto
In which year did {}? | Columbus first cross the Atlantic ; the Wall Street Crash happen ; Queen Victoria die ; the Spanish Armada sail
What is {} made of? | concrete ; brass ; tofu ; porcelain ; the core of the Earth ; a pearl ; linen ; cement ; marzipan ; amber
where is {} | timbuktu ; the bering strait ; lake baikal ; the black forest ; cape horn ; the gobi desert ; mount fuji ; the isle of man
How does {} work? | a compass ; a lock on a canal ; a thermos flask ; a lie detector ; a steam engine ; radar ; a zip
who invented {} | the zip fastener ; dynamite ; the ballpoint pen ; the safety razor ; the stethoscope ; basketball ; velcro
""".strip().splitlines()
