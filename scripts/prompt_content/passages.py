# ruff: noqa: E501, SIM905
"""News-like passages to summarise, as frames: a frame is a list of paragraphs, one a line, frames are set apart by blank lines.

`[one|two|three]` is a choice, `<name>` is a slot filled from SLOTS (the same name keeps its value within a passage), `<x:LOW-HIGH>` a
whole number. All people, places and events are invented. Knows nothing about how the request for a summary is worded.
"""

SLOTS = {
    "town": "Ashbrook|Port Lennard|Velmora|Kirkhaven|Santa Ria|Oldmere|Tarnby|Quillon Bay|Marsfield|Redmouth|Hollin Falls|Easterby|Camp Dunmore|Brackwater|Lindow|Saint Orla|Novaresk|Pinehurst Cove|Grantley|Wexcombe".split("|"),
    "region": "the Northern Valleys|Carrow County|the Lower Delta|the Sable Coast|Merin Province|the Highlands|the Lake District of Varn|Tolland County|the Western Isles|the Ostra region".split("|"),
    "a": "Marta Hollis|Deepak Rao|Ingrid Solberg|Tunde Bakare|Colette Marchand|Owen Price|Lucia Ferrante|Kenji Moritani|Sara Whitlock|Andrei Popa|Ruth Abelson|Miguel Serrano|Fatou Diallo|Helen Castor|Piotr Zielinski|Leila Haddad".split("|"),
    "b": "Gareth Boyle|Nomsa Khumalo|Elena Duarte|Viktor Lindqvist|Joan Pritchard|Ravi Menon|Beatrix Vogel|Sam Okafor|Yvonne Clarke|Tomas Kral|Alma Reyes|Daniel Frost|Mei-Ling Tan|Patrick Nolan|Sofia Brandt|Omar Rashid".split("|"),
    "c": "Edith Marlowe|Karim Nasser|Bridget Shaw|Luis Ortega|Hanna Virtanen|Chidi Eze|Rosalind Pike|Arturo Vidal|Dana Novak|George Tindall|Amina Yusuf|Frank Dorsey".split("|"),
    "day": "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday".split("|"),
    "month": "January|February|March|April|May|June|September|October|November".split("|"),
    "animal": "sea otter|snow leopard|barn owl|harbour seal|brown bear|grey wolf|green turtle|white stork|lynx|beaver".split("|"),
    "sport": "handball|basketball|volleyball|ice hockey|water polo|rugby|hockey".split("|"),
    "food": "olive oil|cherries|goat cheese|honey|wheat|potatoes|cocoa|oysters|apples|rice".split("|"),
    "firm": "Halden Motors|Brightwell Foods|Norvane Energy|Tessellate Systems|Corvin Steel|Lumen Glassworks|Oakline Furniture|Perrin Textiles|Axis Rail|Merrow Shipping".split("|"),
    "disease": "measles|dengue fever|whooping cough|influenza|a stomach virus|Lyme disease".split("|"),
    "art": "landscape|portrait|still life|set of sketches|bronze figure|tapestry|manuscript".split("|"),
}

FRAMES = """
[Firefighters|Emergency crews] in <town> worked through the night to [contain|put out] a fire that [tore through|destroyed] [a furniture warehouse|a former textile mill|a row of shops|a timber yard] late on <day>. No one was killed, but <n:2-9> people were treated for [smoke inhalation|minor burns].
The alarm was raised [shortly before midnight|at about ten in the evening] by [a taxi driver|a night guard|a couple walking their dog] who saw flames behind the building. Within an hour more than <m:40-120> firefighters were on the scene, [some of them from neighbouring towns|helped by two drones with thermal cameras].
"[The heat was so strong that windows across the street burst|We were lucky that the wind turned|If the roof had come down an hour earlier, we would be telling another story]," said fire chief <a>. Residents of <k:20-90> homes had to leave and spent the night in [a school gym|the town hall|a church].
The cause is not yet known. [Investigators are looking at an electrical fault|Police do not rule out arson|The owner said that the wiring had been checked in spring], and <b>, the mayor, promised help for [the businesses that lost their stock|families who cannot go home]. The damage is put at <d:2-30> million.

The council of <town> voted on <day> to [close the main street to cars|build a tram line|introduce a night bus|charge drivers for entering the centre], ending [a debate of nearly four years|months of argument]. The motion passed by <n:21-30> votes to <m:9-19>.
Supporters say that the plan will [cut noise and dirty air|bring shoppers back|make the streets safe for children]. <a>, who leads the transport committee, pointed to a trial last summer in which [traffic fell by <p:12-40> per cent|the number of accidents was halved].
Shop owners are divided. "[My customers come by car, and they will simply go elsewhere|I was against it, but the trial brought me more trade than any sale|Nobody has told us where delivery vans are to stop]," said <b>, who runs [a hardware store|a flower shop|a bakery].
Work is to begin in <month> and will cost <c2:4-60> million, of which [a third is paid by the state|most comes from a fund for climate projects]. The opposition has announced that it will [ask for a referendum|go to court|review the decision after the next election].

Scientists have [discovered|described] a population of the <animal> in <region>, where the species was believed to have [died out more than <n:40-90> years ago|never lived]. The finding, published on <day>, is based on [pictures from hidden cameras|traces of DNA in streams|recordings made at night].
The team led by <a> set up <m:30-150> stations over two years. "[At first we thought that somebody was playing a joke on us|I had to look at the picture three times|It is the kind of result you hope for once in a career]," the biologist said.
How the animals survived is an open question. [One explanation is that hunters left the area when the mines closed|The researchers think that a small group crossed the mountains in a hard winter|Old maps show that part of the forest was never cut]. At least <k:8-60> adults are thought to live there now, and [several have young|the number seems to be growing].
Conservation groups asked the government to protect the area. Farmers are less pleased: <b>, who speaks for the local [farmers' union|herders' association], said that [losses of livestock must be paid for|nobody had talked to the people who live there].

<firm> will [close its plant|cut <n:300-2400> jobs] in <town> by the end of next year, the company announced on <day>. The decision [surprised workers, who had been promised new investment only last <month>|had been feared since orders began to fall].
Chief executive <a> blamed [high energy prices|weak demand abroad|cheap imports|the cost of new environmental rules] and said that the site had lost money for <k:3-7> years in a row. "[We have looked at every alternative, and none of them works|This is the hardest decision of my career]," a statement said.
The union called the plan [a slap in the face|short-sighted] and announced [a strike vote|protests in front of the head office]. <b>, who has worked on the production line for <m:12-35> years, said that [whole families depend on the plant|young people will have to move away].
The state government offered [talks about a loan|help with retraining|to look for a buyer]. Economists say that the region, in which unemployment stands at <p:5-13> per cent, has few other large employers. Shares of the company [rose by <q:2-8> per cent|closed slightly lower].

A [retired teacher|former postman|student|bus driver] from <town> has [walked|cycled] <n:900-4200> kilometres to raise money for [a children's hospital|guide dogs|a rescue boat|cancer research]. <a> reached the [harbour|market square|finishing line] on <day>, [welcomed by a brass band|in pouring rain], after <m:41-160> days on the road.
The idea came [after the illness of a close friend|from a bet in a pub|while reading an old travel book]. The goal had been to collect <k:5-20> thousand; in the end donors gave more than <d:30-140> thousand, [much of it in the last week|a good part of it from people met on the way].
Not everything went to plan. [A knee injury forced a break of nine days|The tent was stolen in the second week|A snowstorm closed a mountain pass], and "[there were mornings when I wanted to take the first train home|I have never eaten so many noodles in my life]", the traveller told reporters.
<b>, who heads the charity, said that the money will pay for [two new rooms for parents|training and equipment|a mobile clinic]. As for the next adventure, [a canoe has already been ordered|the answer was a long laugh|nothing is planned except sleep].

The <sport> team of <town> won the [national title|cup final|regional championship] for the first time [in its history|in <n:11-48> years] on <day>, beating [the favourites from|last year's winners from] Larkhill by <x:3-9> points in front of <m:4-38> thousand spectators.
For a long time it looked like a defeat. [The captain left the field injured after ten minutes|Two early mistakes gave the opponents a clear lead], and at the break coach <a> changed almost everything. "[I told them to forget the score and to enjoy the noise|We had nothing left to lose, so we played like it]," the coach said.
The hero of the evening was <b>, who [had come back from a serious injury only in <month>|is just nineteen years old|scored the last three times]. The decisive moment came [in the final minute|in extra time], when [a long pass opened the defence|a blocked shot turned into a counter-attack].
Thousands celebrated in the streets until the early morning, and the city has planned [a parade|a reception at the town hall]. The club, which was [close to bankruptcy four years ago|founded by dock workers], will now play in [the international league|the top division] next season.

Health officials in <region> have reported <n:24-310> cases of <disease> since the beginning of <month>, [the highest number in a decade|more than four times as many as a year ago]. Most of the patients are [children under ten|people over sixty|farm workers], and <m:3-28> had to be treated in hospital.
The outbreak was first noticed [at a summer camp|in two schools|at a wedding]. <a>, the chief medical officer, said that [vaccination rates had fallen for years|warm and wet weather had made things worse|many people came to the doctor too late].
[Mobile teams are offering free vaccinations|Schools have been asked to keep sick pupils at home|Volunteers are handing out leaflets in five languages]. Doctors advise everyone to [wash their hands often|check their vaccination records|use repellent and wear long sleeves], and to call before they come to a surgery.
"[There is no reason to panic, but there is a reason to act|We have enough medicine, but not enough staff]," said <b>, who runs the emergency ward in <town>. The ministry expects the numbers to [fall within three weeks|rise for some time before they go down].

A [stolen|long-lost] <art> [from the seventeenth century|by a little-known master] has been found [in an attic|behind a false wall|at a flea market|in a storage room of a railway station] in <town>, almost <n:20-85> years after it [vanished from a museum|was last seen in public].
<a>, [a plumber|a student of law|a retired nurse], had bought it for <m:15-80> and [used it as a door stop|hung it in the kitchen|wanted to sell the frame]. A visitor noticed a stamp on the back and [called an expert|took a photograph to the museum].
Tests of [the pigments|the paper|the metal] left no doubt. "[One does not expect to hold something like this in one's hands|It is dirty, but it is in better shape than we dared to hope]," said curator <b>. The value is estimated at <d:1-9> million, but the finder [will get a reward of ten per cent|did not ask for anything].
The work will be [cleaned and shown to the public from <month>|returned to the family of its former owner]. Police are still trying to find out [who took it|how it got across the border], although [any crime would no longer be punished|most witnesses are dead].

[Heavy rain|A sudden thaw|A tropical storm] has caused floods in <region>, forcing more than <n:2-18> thousand people to leave their homes. In <town> the river rose by <m:2-6> metres in a single night and [swept away two bridges|broke through a dam|filled cellars and underground garages].
Soldiers and volunteers [filled sandbags|brought people to safety in boats|flew food to villages that were cut off]. At least <k:2-11> people are missing. "[The water came so fast that we only took the dog and the papers|We watched our car float past the window]," said <a>, whose house stands near the river.
The weather service [had warned of the storm on <day>|admits that it underestimated the rain]. Critics say that [fields along the river should never have been built on|plans for a flood basin have been in a drawer for years]. The governor, <b>, promised [emergency payments within a week|an inquiry].
Forecasters expect [drier weather|more showers] in the coming days, but it may take [months|until next spring] before the main road and the railway line can be used again. Insurers speak of damage of <d:60-700> million.

Researchers at the University of <town> have developed [a battery that charges in five minutes|a cheap test for polluted water|a plastic that dissolves in the sea|a coating that keeps windows cool|a sensor that smells spoiled food]. The results were presented at a conference on <day>.
The trick is [a layer thinner than a hair|a mixture of clay and sugar|an enzyme found in soil|a pattern copied from the wing of a moth]. In tests the new material [lasted <n:3-12> times as long as the usual one|worked in <m:85-99> of a hundred cases].
"[We did not look for this; it was an accident on a Friday afternoon|After four years of failure it was the simplest idea that worked]," said <a>, who leads the group of <k:5-14> people. An independent expert, <b>, called the work [impressive, but far from a product|a real step forward] and asked for [tests outside the laboratory|an honest account of the costs].
A start-up company has been founded, and [a pilot plant is to open in <month>|two large firms have shown interest]. Until it reaches the shops, [at least five years will pass|some questions of safety must be answered].

Pupils in <town> will [start school an hour later|leave their phones at the door|learn to cook|have lessons outdoors once a week] from <month>. The experiment, the first of its kind in <region>, includes <n:6-40> schools and will be [watched by researchers|paid for by a foundation].
Head teacher <a> hopes for [better concentration|fewer conflicts in the breaks|healthier habits]. A small trial last year was [encouraging|mixed]: [marks went up slightly|absences fell by <p:10-35> per cent], and [<m:60-90> per cent of the parents want it to go on|teachers reported a calmer mood].
Some families have doubts. "[Who is supposed to look after my daughter in the morning?|It sounds nice, but nobody asked the bus company|I would rather see money spent on a new roof]," said <b>, a father of three.
The pupils themselves [are mostly in favour|have voted in favour by a small margin]. <c>, who is fifteen, said that [the first week was odd, but now it feels normal|the best thing is that people talk to each other again]. A final report is expected in two years.

Farmers in <region> are facing [the worst|the best] harvest of <food> in <n:15-50> years. After [a spring without rain|a late frost|a mild winter|an invasion of insects], the farmers' association said on <day>, yields will be [about <p:25-60> per cent lower|up to <p:25-60> per cent higher] than usual.
<a>, who farms near <town>, has seen nothing like it. "[My grandfather kept a diary of every season, and there is no entry like this|You get up in the morning and do not know if you should laugh or cry]," the farmer said while walking through the [fields|rows].
For shoppers this means that prices are likely to [rise before the holidays|fall for a while]. Dealers have begun to [buy abroad|look for more storage], and [one supermarket chain has limited sales|a cooperative has changed its contracts].
The agriculture minister, <b>, [offered loans at low interest|spoke of a lesson for the future|promised to speed up insurance payments]. Experts recommend [hardier varieties|better irrigation|smaller fields with hedges], but those changes [cost money that many do not have|take years].

A [passenger train|commuter train|night train] [came off the rails|hit a fallen tree|broke down in a tunnel] near <town> on <day>, leaving <n:120-480> travellers [stranded for <m:4-11> hours|in the dark and without heating]. <k:3-25> people were [slightly injured|taken to hospital].
The line was closed [between two stations for the whole day|until the next morning], and [buses were used instead|thousands of commuters were late]. Passenger <a> praised the crew: "[They shared their own sandwiches with us|The conductor told jokes until the light came back]."
The railway company apologised and said that [a broken switch|a signal that failed|a landslide after heavy rain] was to blame. The safety authority has [seized the data recorder|opened an inquiry]. Only in <month> a report had found that [repairs on the line were overdue|staff worked too many hours].
<b>, who speaks for a passengers' group, demanded [money back for everyone on board|more staff|a clear plan for such cases]. The company wants to spend <d:40-300> million on the line over five years.

After <n:21-60> years [the cinema|the bookshop|the swimming pool|the ferry|the radio station] of <town> was to be closed for good. Now its [customers|neighbours|former staff] have bought it. On <day> they signed the contract, [with tears and sparkling wine|in front of a cheering crowd].
More than <m:300-1900> people paid at least <k:50-200> each for a share. "[We did not want to explain to our children why there is nothing left here|People here complain a lot, but when it matters they turn up]," said <a>, one of the organisers.
The former owner, <b>, had searched for a buyer for <j:2-5> years. [A hotel chain had offered more money|A plan for a car park had already been drawn], but [the owner preferred to sell to the town's people|the offer was withdrawn in <month>].
There is much to do: [the roof leaks|the heating is older than most visitors|the licence must be renewed]. Volunteers will [paint the rooms on weekends|work at the ticket desk], and [a benefit concert is planned|a bank has promised a loan]. A few doubters say that goodwill alone does not pay the bills.

A court in <town> has [sentenced|cleared] [a former bank manager|a building contractor|an online trader|a town official], <a>, [of fraud|in a case of bribery] after a trial that lasted <n:9-70> days. [The judge spoke of a betrayal of trust|The judges found that the evidence was too weak].
According to the prosecution, [invoices for work that was never done|invented customers|secret accounts] had been used to move <m:2-45> million between <k:5-9> companies. The case began when [a trainee noticed the same signature everywhere|a tax inspector asked a simple question|a hard disk was found in a skip].
The defence argued that [the rules were unclear|others had given the orders|no one had been harmed]. "[We will appeal|This verdict closes a terrible chapter for my client]," said the lawyer, <b>.
Victims followed the ruling in silence. <c>, who lost savings of <d:20-90> thousand, said that [the money is gone, but at least the truth is known|the verdict is hard to understand]. [A civil case starts in <month>|The town wants to change its rules for contracts].

[An expedition|A team of divers|A group of students] has [found|mapped] [the wreck of a merchant ship|a submerged village|a Bronze Age cemetery|a Roman villa] near <town>. The site, which lies [under <n:3-40> metres of water|below a field of maize|next to a motorway], is said to be [the largest of its kind in <region>|unusually well preserved].
Among the finds are [coins, combs and leather shoes|jars that still smell of wine|a child's toy carved from bone|tools and <m:30-200> glass beads]. "[You could see the fingerprints of the potter|It looks as if the people had left an hour ago]," said archaeologist <a>.
The discovery was made [by chance during building works|with the help of old letters|by a local fisherman], and it was kept secret for <k:5-18> months [for fear of looters|until the work was finished]. Experts believe that the place was given up after [a fire|a flood|a war].
The finds will be [shown in the town museum from <month>|examined in a laboratory]. What happens to the site is disputed: <b>, a local politician, wants [a visitor centre|it to be covered again], while the road authority [fears delays|offers to move the route].

<firm> has recalled <n:8-260> thousand [electric kettles|children's bicycles|phone chargers|cars|frozen pizzas] because of [a risk of fire|brakes that can fail|pieces of metal|a fault in the software]. The company knows of <m:4-37> [accidents|complaints], but of [no serious injuries|one person who was badly hurt].
The goods were sold between <month> and the end of the year [in supermarkets|online and in shops] in <k:3-14> countries. Customers can [return them without a receipt|get free repairs|ask for a refund].
Consumer groups criticised that [the warning came too late|the hotline could not be reached]. "[The first reports were sent in half a year ago|People have a right to know what stands in their kitchen]," said <a> of the consumer centre in <town>.
A spokesman, <b>, said that [the supplier had changed a part without notice|every device had passed the tests], and that the checks [have been made stricter|will be done by an independent laboratory]. The recall is likely to cost <d:5-80> million.

The people of <town> have [elected|re-elected] a mayor: <a>, [a doctor|a former swimmer|an independent candidate|a farmer], won <p:51-64> per cent of the vote on <day>, ahead of <b>, who had been [the favourite in all polls|in office for <n:8-20> years].
The campaign was about [rents|the closing of the hospital|a new airport|the future of the harbour]. Turnout was <m:38-77> per cent, [the highest since the nineties|lower than ever before]. "[This is not a victory over anybody, it is an order to work|I will sleep for a day, and then we start]," the winner said.
Among the first tasks are [a budget with a hole of <d:3-40> million|the repair of <k:3-12> schools|talks with the bus drivers, who are on strike]. On the council there is [no clear majority|a narrow majority for the new mayor].
The loser [congratulated at once|spoke of mistakes in the last weeks|asked for a recount in two districts]. Observers think that [young voters|the suburbs|a television debate] decided the race. The new mayor takes office in <month>.

[A power cut|A failure of the phone network|An attack by hackers] brought large parts of <town> to a standstill on <day>. [Traffic lights went dark|Cash machines stopped working|Surgeons had to put off operations], and <n:15-190> thousand households were [without electricity|cut off] for up to <m:3-20> hours.
It began at [six in the morning|noon], when [a crane touched a cable|a transformer burst|staff saw strange messages on their screens]. <a>, who heads the city works, said that [the reserve system had failed as well|nobody could have foreseen such a chain of events].
People helped themselves. [Restaurants cooked everything in the freezers and gave it away|Neighbours met on the stairs with candles|Students directed the traffic]. "[It was almost a pity when the light came back|I have lived here for years and met the family next door today]," said <b>.
The damage is estimated at <d:2-50> million. [A commission will report in <month>|The opposition wants to know why warnings were ignored]. Experts say that cities should [practise for such days|keep paper maps and radios at hand|invest in a second line].

[A film|A documentary|A first novel|An opera] about [a village without young people|two sisters at sea|a strike of lighthouse keepers|the man who painted the same tree for forty years] has won the main prize at the festival in <town>. The jury praised [its quiet humour|the courage of its author|pictures that one does not forget].
<a>, who is only <n:24-39>, worked on it for <m:3-9> years, [at night, after shifts in a bakery|with money borrowed from friends]. "[I nearly gave up when the fifth letter of refusal came|My mother will now finally believe that this is a job]," the winner said on <day>.
More than <k:60-340> works had been entered. The audience award went to <b> for [a comedy about an undertaker|a story of a stolen tuba], and [a special prize was given to a group of schoolchildren|the prize for young artists was not awarded].
The festival counted <v:12-95> thousand visitors, [a record|fewer than in the years before]. Its director, <c>, announced [a move to the old port|free tickets for students], although [the sponsor has left|costs have risen]. The winning work will be seen in <month>.

Engineers have begun to [build|repair|blow up] [a bridge|a dam|a lighthouse|a railway tunnel] near <town>, a project that has been [discussed for <n:12-45> years|delayed three times]. It is to be finished in <m:2-7> years and will cost <d:80-950> million.
The work is difficult because [the ground is soft|the tide leaves only four hours a day|thousands of birds breed nearby|trains must keep running]. <a>, who is in charge of the site, has <k:90-700> workers and [a machine as long as a football field|divers from five countries].
Residents hope for [shorter ways to work|an end of the traffic through their streets|new jobs], but they also complain about [noise and dust|cracks in their walls]. "[We were promised quiet nights, and now the lamps shine into the bedroom|When it is finished I will be the first to walk across]," said <b>.
An association for the protection of nature has [gone to court|agreed to a compromise]: [new wetlands will be created|work stops from <month> for two months]. If the budget is exceeded, [the state must pay|tolls are possible].

The number of tourists in <town> has [doubled|fallen by a third] within <n:3-9> years. Now the authorities want to [limit cruise ships|charge an entrance fee|win back guests with free museum tickets|forbid holiday flats in the old quarter]. The rules take effect in <month>.
On some days <m:9-48> thousand visitors [crowd the lanes|came in the past], while only <k:4-30> thousand people live there. <a>, who has a [souvenir shop|cafe|small hotel], is torn: "[I live from the guests, but I can no longer get to my own door|Without tourists this place is a stage without actors]."
A study by <b> of the local university says that [most day trippers spend less than twenty|guests who stay for several nights bring ten times as much money]. It recommends [a booking system|better trains|events in the winter].
The travel industry [warns of lost jobs|supports the plan in principle]. Other towns in <region> are watching closely, for they [have the same problem|hope to get a share of the visitors]. First results are expected after one season.

A [missing|lost] [hiker|sailor|boy of nine|pair of climbers] has been found alive after <n:2-9> days in <region>. [A helicopter crew|A search dog named Juno|A shepherd] discovered the missing on <day> [at the foot of a cliff|in a hut without a roof|drifting in a rubber boat], [weak, but in good spirits|with a broken ankle].
More than <m:60-400> helpers had taken part in the search, which was [almost called off the evening before|made harder by fog]. "[In my job you learn not to hope too loudly|When the radio said alive, grown men cried]," said <a>, the head of the rescue team.
To survive, [rain was collected in a plastic bag|there were only berries and half a bar of chocolate|it was necessary to stay awake at night and sleep in the sun]. Doctors in <town> were [surprised by the good condition|treating frostbite and dehydration].
The rescuers used the moment for advice: [tell somebody where you go|take a whistle and a lamp|turn back in time]. <b>, a relative, thanked everyone and said that [there will be a big party|the next holiday will be on a beach]. Who pays for the search, some <d:40-200> thousand, is still open.

Astronomers have observed [a comet|a planet|an exploding star|a cloud of gas] that [should not exist according to current theory|is older than almost anything seen before]. The data come from [a telescope near <town>|a satellite that was launched in <month>|an observatory in <region>].
The object is <n:40-900> light years away and has [a tail of ice grains|a surface as hot as molten iron|a strange, regular flicker]. "[Either our instruments are broken or our textbooks are|We checked for errors for a whole year]," said <a>, the first author of the study.
Several explanations are discussed. [It may have formed near a second star|A collision could have changed its orbit|Dust might make it look brighter than it is]. <b>, who was not involved, finds the measurements [convincing|interesting, but not yet certain].
More time on the largest telescopes has been granted, and [amateurs are invited to search old pictures|a new instrument will start within two years]. For the team of <k:6-45> researchers the discovery is [a reward for patience|the start of a lot of work].

Volunteers have collected <n:3-48> tonnes of rubbish [on the beaches|along the river|in the forests] of <region>. Nearly <m:600-5200> people took part in the campaign on <day>, [from kindergartens to rowing clubs|twice as many as last year].
Most of it was [plastic packaging|fishing nets|bottles and cans], but there were odd things too: [a piano|a wedding dress|a letter from 1974|three shopping trolleys and a safe]. "[You stop being angry and start being amazed|My son found more than I did, because he is nearer to the ground]," said <a> from <town>.
The organisers want [a deposit on all bottles|more bins|higher fines]. <b> of the environment office said that [cleaning costs <d:1-9> million a year|a new law is being prepared]. Scientists will [sort a part of the rubbish to find out where it comes from|publish a map in <month>].
The next date is fixed already. [Schools can borrow gloves and bags|A local firm turns the plastic into benches], and whoever missed it [can adopt a stretch of the shore|is asked to begin in front of his own door].

The museum of [clocks|fishing|bread|typewriters|toys] in <town> has opened a new wing after <n:2-6> years of work. On <day> the first <m:400-2600> visitors saw [a collection that had been hidden in boxes|rooms in which everything may be touched].
The star is [a machine of 1783 that still runs|a boat made of paper|a doll that can write its name]. Director <a> wanted a house [without glass cases and forbidding signs|that is fun for people who hate museums]. "[If nothing breaks in the first week, we were too careful|Children ask better questions than professors]," the director said.
The building by <b> [is made of wood from the region|looks like a folded letter|has no straight wall]. It cost <d:3-28> million; [a third came from donations|it was finished two months late]. Critics find the front [too loud|brave], and neighbours [miss the old chestnut trees|are glad about the garden].
Entry is free [for everyone under eighteen|on the first Sunday of the month]. From <month> there will be [workshops in the evening|a programme for people with dementia|guided tours with a torch].
""".strip().split("\n\n")

EXTRAS = """
"I have lived in <town> all my life, and I thought that nothing could surprise me any more," said <c>, who watched from a window on the other side of the square. "Now I buy the newspaper every morning to see what comes next."
The subject has occupied the local authorities for a long time. A first report was written <e7:4-15> years ago, but it was never published, and of its <e8:11-39> recommendations only a handful were ever carried out.
Reporters who came to <town> in the following days met people who were friendly but careful with their words. Many said that they would rather wait for the facts, and that too much had been promised in the past.
Experts warn against quick conclusions. "One example is not a trend," said <c>, who teaches statistics at a technical college. "But one example can be a good reason to look more closely, and that is what we should do now."
The history of <region> is full of such stories. Older residents still speak of the winter in which the harbour froze and the whole town shared one telephone, one doctor and two sledges for almost six weeks.
Not all questions have been answered. Officials said that a second report, expected in <month>, would deal with the costs, the legal side and the question of who should have acted earlier.
For the younger people the matter is also one of trust. A group of pupils from <town> has written an open letter with <e9:200-2400> signatures, in which they ask for more information and for a seat at the table.
Business leaders gave a cautious welcome to the news. A chamber of commerce survey found that <e10:31-69> per cent of its members expect better trade next year, while a fifth are planning to hire no one at all.
There was help from unexpected places. A choir gave a concert without asking for a fee, a bakery delivered <e11:150-900> rolls, and a lorry driver from abroad spent his day off carrying boxes up and down the stairs.
What happened next is told in different ways. Some witnesses speak of a long silence, others remember shouting and a siren. A camera at the corner, which could have settled the matter, had been out of order since <month>.
Behind the scenes the talks had been difficult. According to people who took part, an agreement was reached only at three in the morning, after the heating had failed and somebody had fetched blankets and tea.
The minister responsible for <region> is expected to visit on <e12:12-28> <month>. The programme has not been published, but a walk through the centre and a meeting with families, volunteers and shop owners are planned.
A comparison shows how unusual the case is. In the last ten years there were only <e13:2-9> others in the whole country, most of them smaller, and none of them drew as much attention from abroad.
"People ask me whether it was worth it, and I tell them to come back in ten years," <c> said. "Anyone who says that he knows the answer today has not understood the question."
A hotline has been set up for questions, and the town has put the most important answers on its website in several languages.
It is not the first time that <region> has made headlines this year. In <month> a dispute about water rights had drawn reporters from all over the country.
In a survey of <e1:500-1900> residents, <e2:41-78> per cent said that they followed the matter closely, while one in ten had never heard of it.
<c>, who has written two books about <region>, sees a pattern: "Big changes here always begin with something small, and they always take longer than anyone thinks."
Similar cases abroad have ended well, experts note, as long as everybody involved was told early what was going to happen.
The weather played a part as well. After the driest <month> on record, temperatures of more than <e3:31-39> degrees were measured on <e4:4-12> days in a row.
A government spokesperson declined to comment on details, but said that the events would be discussed in parliament before the summer break.
On social media the reactions were mixed. A short video of the scene was watched more than <e5:2-9> million times within a day.
For the town of <e6:12-80> thousand people it is an unusual amount of attention. Hotels are booked out, and one cafe has already named a sandwich after the event.
Money remains the most difficult point. Without further support, the organisers say, the reserves will last until <month> at best.
""".strip().splitlines()

ASKS = ["Summarize: {s}"] * 9 + [
    "Summarize this article in three sentences.\n\n{s}", "Give a short summary of the following text.\n\n{s}", "What are the key points of this news story?\n\n{s}",
    "{s}\n\nSummarize the text above.", "TL;DR for the article below:\n\n{s}", "Write a one-paragraph summary of this report: {s}", "Summarize the article in bullet points.\n\n{s}",
]
